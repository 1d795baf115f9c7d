package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"wsu.windows/internal/wmcb/detached"
)

// runDetached is wmcb run --id NAME SUBCOMMAND ...: the same as the subcommand, but it goes on when the session ends, and whoever says the
// same again gets its outcome.
func runDetached(ctx context.Context, args []string, s streams) int {
	set := flag.NewFlagSet("wmcb run", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	id := set.String("id", "", "the run's name, 8 to 40 letters and digits")
	inside := set.Bool("inside", false, "be the run itself; wmcb run starts it")
	if err := set.Parse(args); err != nil {
		return fail(s, "json", "run", usageError{err.Error()})
	}
	if set.NArg() == 0 {
		return fail(s, "json", "run", usageError{fmt.Sprintf("which subcommand? There are %s", names())})
	}
	r := &detached.Run{ID: *id, Args: set.Args()}
	if *inside {
		if err := r.Inside(s.in, func(d detached.Streams) int { return run(ctx, r.Args, streams{d.In, d.Out, d.Err}) }); err != nil {
			return exitCode(err)
		}
		return 0
	}
	code, err := r.Follow(ctx, detached.Streams{In: s.in, Out: s.out, Err: s.err})
	if err != nil {
		return fail(s, "json", "run", err)
	}
	return code
}
