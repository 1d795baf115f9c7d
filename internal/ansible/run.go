package ansible

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"wsu.windows/internal/progress"
	"wsu.windows/internal/reason"
)

const (
	// maxArguments bounds the size of the argument file in bytes. The largest argument is a NodeSpec with the user's own
	// kubelet configuration: some ten kilobytes.
	maxArguments = 8 << 20
	// interruptGrace is how long an interrupted module may take to end by itself; the whole has to end within 2 s.
	interruptGrace = 1500 * time.Millisecond
)

// Main runs a module as its own process: arguments is what follows the module's name on the command line. It returns the
// exit code: 0, or 1 if the result says failed.
func Main(module Module, arguments []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Run(ctx, module, arguments, stdout, stderr)
}

// Run runs a module; a cancelled context means that it was interrupted.
func Run(ctx context.Context, module Module, arguments []string, stdout, stderr io.Writer) int {
	hide := &redactor{}
	env := &Env{redactor: hide, Log: hide.writer(stderr), Progress: progress.New(hide.writer(stderr))}
	result, err := runArguments(ctx, env, module, arguments)
	document := envelope(env, result, err)
	if _, werr := stdout.Write(append(encode(document, hide), '\n')); werr != nil || err != nil {
		return 1
	}
	return 0
}

func runArguments(ctx context.Context, env *Env, module Module, arguments []string) (Result, error) {
	raw, err := readArguments(arguments)
	if err != nil {
		return Result{}, err
	}
	env.redactor.collect(raw, module.Options, false)
	env.take(raw)
	return guarded(ctx, env, module, raw)
}

// guarded runs the module's function so that neither a panic nor an interrupt leaves Ansible without a result.
func guarded(ctx context.Context, env *Env, module Module, raw map[string]any) (Result, error) {
	type outcome struct {
		result Result
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				fmt.Fprintf(env.Log, "panic: %v\n%s", p, debug.Stack())
				o.err = reason.New(reason.Internal, "module "+module.Name, fmt.Sprintf("panic: %v", p), "")
			}
			done <- o
		}()
		o.result, o.err = module.run(ctx, env, raw)
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
	}
	interrupted := reason.New(reason.Interrupted, "module "+module.Name, "it was interrupted", "")
	select {
	case o := <-done:
		if o.err == nil { // it was through all the same
			return o.result, nil
		}
		return o.result, interrupted
	case <-time.After(interruptGrace):
		return Result{}, interrupted
	}
}

func readArguments(arguments []string) (map[string]any, error) {
	if len(arguments) != 1 {
		return nil, reason.New(reason.ArgumentInvalid, "command line", fmt.Sprintf("%d arguments", len(arguments)),
			"Give one file with the module's arguments as a JSON object, as Ansible does.")
	}
	file, err := os.Open(arguments[0])
	if err != nil {
		return nil, reason.Wrap(reason.ArgumentInvalid, "argument file", err, "Give a readable JSON file.")
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxArguments+1))
	if err != nil {
		return nil, reason.Wrap(reason.ArgumentInvalid, "argument file", err, "Give a readable JSON file.")
	}
	if len(content) > maxArguments {
		return nil, reason.New(reason.ArgumentInvalid, "argument file", fmt.Sprintf("it is larger than %d bytes", maxArguments), "Give less; large things belong into files.")
	}
	raw, err := parseObject(content)
	if err != nil {
		return nil, reason.Wrap(reason.ArgumentInvalid, "argument file", err, "Give one JSON object.")
	}
	return raw, nil
}

func parseObject(content []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var raw map[string]any
	if err := decoder.Decode(&raw); err != nil {
		// the decoder's own text may quote the content, and that may be a secret
		return nil, errors.New("it is not a JSON object")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	if raw == nil {
		return nil, errors.New("it is null")
	}
	return raw, nil
}

// take moves the `_ansible_*` keys from the arguments into the Env; those that it does not know are none of our business.
func (e *Env) take(raw map[string]any) {
	truth := func(name string) bool { return strings.EqualFold(fmt.Sprint(raw[name]), "true") }
	e.CheckMode = truth("_ansible_check_mode")
	e.DiffMode = truth("_ansible_diff")
	if number, ok := raw["_ansible_verbosity"].(json.Number); ok {
		if verbosity, err := number.Int64(); err == nil {
			e.Verbosity = int(verbosity)
		}
	}
	if connection, ok := raw["connection"].(map[string]any); ok {
		e.Host, _ = connection["inventory_hostname"].(string)
	}
	if host, ok := raw["_ansible_inventory_hostname"].(string); ok {
		e.Host = host
	}
	for name := range raw {
		if strings.HasPrefix(name, "_ansible_") {
			delete(raw, name)
		}
	}
}
