// Command wmcb is the half of the project that runs on a Windows node: it does everything that has to happen there, reports in JSON, and
// exits. docs/wmcb.md describes it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/version"
)

func main() {
	// The session that started it may go away at any time. What was begun is finished: only what is printed is lost then.
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	// A closed console or a shutdown (SIGTERM in Go's words) leaves some seconds, which is enough to undo.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// streams are the standard ones.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command is one subcommand.
type command struct {
	name, short string
	// flags declares its flags and gives the function that runs it, to be called when they are parsed.
	flags func(*flag.FlagSet) runner
}

// runner gives the document, and where it is printed if not on the standard output.
type runner func(ctx context.Context, s streams) (document any, err error)

// usageError is a mistake on the command line.
type usageError struct{ problem string }

func (e usageError) Error() string { return e.problem }

func run(ctx context.Context, args []string, s streams) int {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		usage(s.err)
		if len(args) == 0 {
			return exitUsage
		}
		return 0
	}
	if args[0] == "run" {
		return runDetached(ctx, args[1:], s)
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return fail(s, "json", args[0], usageError{fmt.Sprintf("there is no subcommand %q; there are %s", args[0], names())})
	}
	c := commands[i]
	set := flag.NewFlagSet("wmcb "+c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	output := set.String("output", "json", "json, or text for people")
	runs := c.flags(set)
	err := set.Parse(args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		set.SetOutput(s.err)
		fmt.Fprintf(s.err, "wmcb %s: %s\n", c.name, c.short)
		set.PrintDefaults()
		return 0
	case err != nil:
		return fail(s, *output, c.name, usageError{err.Error()})
	case set.NArg() > 0:
		return fail(s, *output, c.name, usageError{fmt.Sprintf("%q is one argument too many", set.Arg(0))})
	case *output != "json" && *output != "text":
		return fail(s, *output, c.name, usageError{fmt.Sprintf("--output is json or text, not %q", *output)})
	}
	document, err := runs(ctx, s)
	if document == nil {
		return fail(s, *output, c.name, err)
	}
	if print(s, *output, c.name, document) != nil && err == nil {
		return exitInternal // nobody was there to read it
	}
	return exitCode(err)
}

// fail prints a document for what failed before there was one.
func fail(s streams, output, name string, err error) int {
	var misuse usageError
	if errors.As(err, &misuse) {
		err = reason.New(reason.ArgumentInvalid, "wmcb "+name, misuse.problem, "Run `wmcb help` or `wmcb SUBCOMMAND --help`.")
	}
	header := nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Error", WMCB: version.Release, Error: reason.Of(err)}
	_ = print(s, output, name, &header)
	if misuse.problem != "" {
		return exitUsage
	}
	return exitCode(err)
}

// print writes the document: one JSON object on a line of its own.
func print(s streams, output, name string, document any) error {
	if output == "text" {
		return printText(s.out, name, document)
	}
	raw, err := json.Marshal(document)
	if err != nil {
		return err
	}
	_, err = s.documentWriter(document).Write(append(raw, '\n'))
	return err
}

// documentWriter: an archive on the standard output leaves the error output to its document.
func (s streams) documentWriter(document any) io.Writer {
	if collected, ok := document.(*nodereport.Collect); ok && collected.Path == "-" {
		return s.err
	}
	return s.out
}

func (s streams) progress() *progress.Reporter { return progress.New(s.err) }

func names() string {
	list := make([]string, len(commands))
	for i := range commands {
		list[i] = commands[i].name
	}
	return strings.Join(list, ", ")
}

func usage(w io.Writer) {
	fmt.Fprintf(w, "wmcb %s makes a Windows machine a Kubernetes node. Subcommands:\n\n", version.Release)
	for _, c := range commands {
		fmt.Fprintf(w, "  %-20s %s\n", c.name, c.short)
	}
	fmt.Fprintf(w, "  %-20s %s\n", "run", "run a subcommand so that it outlives this session: wmcb run --id NAME SUBCOMMAND ...")
	fmt.Fprintf(w, "\nEach prints one JSON document (--output text is for people) and exits 0 only on success. `wmcb SUBCOMMAND --help` lists the flags.\n")
}
