package ansible

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/reason"
)

type inner struct {
	Port   int    `json:"port" default:"22"`
	Secret string `json:"password"`
}

type arguments struct {
	Name       string            `json:"name" required:"true"`
	Kubeconfig string            `json:"kubeconfig" path:"true"`
	State      string            `json:"state" default:"present" choices:"present,absent"`
	Timeout    int               `json:"timeout" default:"300"`
	Force      bool              `json:"force"`
	Labels     map[string]string `json:"labels"`
	Users      []string          `json:"users"`
	Inner      inner             `json:"inner"`
	Connection *inner            `json:"connection" opaque:"true"`
	Verbosity  *int              `json:"verbosity"`
	Spec       map[string]any    `json:"spec"`
	Key        string            `json:"key" secret:"true"`
}

func decode(t *testing.T, text string) (arguments, error) {
	t.Helper()
	raw, err := parseObject([]byte(text))
	require.NoError(t, err)
	var args arguments
	err = Decode(raw, &args)
	return args, err
}

func TestDecodeTakesWhatAnsibleSends(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	args, err := decode(t, `{"name": 5, "kubeconfig": "~/kube", "timeout": "60", "force": "yes", "labels": {"a": true, "b": 1, "c": "x"},
		"users": "a, b", "connection": "{\"port\": 23}", "verbosity": "4", "spec": {"x": {"y": 1}}, "state": null}`)
	require.NoError(t, err)
	assert.Equal(t, "5", args.Name)
	assert.Equal(t, "/home/somebody/kube", args.Kubeconfig)
	assert.Equal(t, "present", args.State, "null is absent, and the default comes from the tag")
	assert.Equal(t, 60, args.Timeout)
	assert.True(t, args.Force)
	assert.Equal(t, map[string]string{"a": "true", "b": "1", "c": "x"}, args.Labels)
	assert.Equal(t, []string{"a", "b"}, args.Users)
	assert.Equal(t, 23, args.Connection.Port)
	assert.Equal(t, 4, *args.Verbosity)
	assert.Equal(t, 22, args.Inner.Port, "the defaults of a dictionary that is not given")
	assert.Equal(t, json.Number("1"), args.Spec["x"].(map[string]any)["y"])
}

func TestDecodeRefusesWithThePathOfTheArgument(t *testing.T) {
	tests := map[string]struct{ input, problem string }{
		"a missing required argument":     {`{}`, "argument name: it is missing"},
		"an empty required argument":      {`{"name": ""}`, "argument name: it is empty"},
		"a misspelt argument":             {`{"name": "x", "timout": 5}`, "Did you mean timeout?"},
		"an unknown argument":             {`{"name": "x", "zzz": 5}`, "argument zzz: there is no such argument. The arguments are name, kubeconfig"},
		"a misspelt nested argument":      {`{"name": "x", "inner": {"prot": 5}}`, "argument inner.prot: there is no such argument. Did you mean inner.port?"},
		"a word for a number":             {`{"name": "x", "inner": {"port": "ssh"}}`, `argument inner.port: it must be a whole number, not "ssh"`},
		"a fraction for a number":         {`{"name": "x", "timeout": 1.5}`, "argument timeout: it must be a whole number, not 1.5"},
		"a number out of range":           {`{"name": "x", "timeout": 99999999999999999999}`, "argument timeout: it must be a whole number"},
		"a list for a string":             {`{"name": ["x"]}`, "argument name: it must be a string, not a list"},
		"an unknown choice":               {`{"name": "x", "state": "gone"}`, `argument state="gone": this is none of its values. Use one of present, absent.`},
		"a word for a boolean":            {`{"name": "x", "force": "perhaps"}`, `argument force: it must be true or false, not "perhaps"`},
		"a dictionary among strings":      {`{"name": "x", "users": ["a", {}]}`, "argument users[1]: it must be a string, not a dictionary"},
		"a secret of a wrong type":        {`{"name": "x", "key": ["hunter2"]}`, "argument key: it must be a string, not something else"},
		"a string for a dictionary":       {`{"name": "x", "labels": "a=b"}`, "argument labels: it must be a dictionary"},
		"null in a list":                  {`{"name": "x", "users": [null]}`, "argument users[0]: it is null"},
		"a number for a boolean":          {`{"name": "x", "force": 2}`, "argument force: it must be true or false"},
		"a dictionary for a whole number": {`{"name": "x", "timeout": {}}`, "argument timeout: it must be a whole number, not a dictionary"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decode(t, test.input)
			require.Error(t, err)
			assert.Contains(t, err.Error(), test.problem)
			assert.True(t, reason.Is(err, reason.ArgumentInvalid))
		})
	}
}

// run executes a module as Ansible does and gives the result's object and what stood on stderr.
func run(t *testing.T, ctx context.Context, module Module, input string) (result map[string]any, stderr string, code int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "args.json")
	require.NoError(t, os.WriteFile(file, []byte(input), 0o600))
	var out, errs bytes.Buffer
	code = Run(ctx, module, []string{file}, &out, &errs)
	require.NoError(t, json.Unmarshal(out.Bytes(), &result), out.String())
	for _, key := range []string{"changed", "failed", "msg"} {
		assert.Contains(t, result, key)
	}
	return result, errs.String(), code
}

func module(run func(ctx context.Context, env *Env, args *arguments) (Result, error)) Module {
	return New("example", run)
}

func TestModesComeFromAnsiblesKeysAndUnknownOnesAreIgnored(t *testing.T) {
	var seen Env
	m := module(func(_ context.Context, env *Env, _ *arguments) (Result, error) {
		seen = *env
		return Result{Changed: true, Msg: "done", Data: map[string]any{"answer": 42}, Diff: []Diff{{Before: "a", After: "b"}}}, nil
	})
	result, _, code := run(t, t.Context(), m, `{"name": "x", "_ansible_check_mode": true, "_ansible_diff": true, "_ansible_verbosity": 3,
		"_ansible_of_a_later_core": {"a": []}, "connection": {"port": 1}}`)
	assert.Zero(t, code)
	assert.True(t, seen.CheckMode)
	assert.True(t, seen.DiffMode)
	assert.Equal(t, 3, seen.Verbosity)
	assert.Equal(t, true, result["changed"])
	assert.Equal(t, false, result["failed"])
	assert.InDelta(t, 42, result["answer"], 0)
	assert.NotNil(t, result["diff"])
}

func TestFailureSaysWhoWhatAndRemedyAndKeepsTheData(t *testing.T) {
	m := module(func(context.Context, *Env, *arguments) (Result, error) {
		err := reason.New(reason.CSRRefused, "csr csr-x", "its key is another one", "Find out who sent it.")
		return Result{Data: map[string]any{"seen": 1}}, fmt.Errorf("wait: %w", err)
	})
	result, _, code := run(t, t.Context(), m, `{"name": "x", "_ansible_inventory_hostname": "w1"}`)
	assert.Equal(t, 1, code)
	assert.Equal(t, true, result["failed"])
	assert.Equal(t, "w1: csr csr-x: its key is another one. Find out who sent it.", result["msg"])
	assert.Equal(t, "csr_refused", result["reason"])
	assert.Equal(t, "csr csr-x", result["object"])
	assert.Equal(t, "Find out who sent it.", result["remedy"])
	assert.InDelta(t, 1, result["seen"], 0)
}

func TestAPanicBecomesAResult(t *testing.T) {
	m := module(func(context.Context, *Env, *arguments) (Result, error) { panic("hunter2hunter2 is out") })
	result, stderr, _ := run(t, t.Context(), m, `{"name": "x", "key": "hunter2hunter2"}`)
	assert.Equal(t, "internal", result["reason"])
	assert.Contains(t, stderr, "panic:")
	assert.NotContains(t, stderr, "hunter2hunter2")
	assert.NotContains(t, result["msg"], "hunter2hunter2")
}

func TestAnInterruptedModuleEndsEvenIfItsFunctionDoesNot(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	block := make(chan struct{})
	defer close(block)
	m := module(func(context.Context, *Env, *arguments) (Result, error) {
		cancel()
		<-block
		return Result{}, nil
	})
	result, _, _ := run(t, ctx, m, `{"name": "x"}`)
	assert.Equal(t, "interrupted", result["reason"])
}

func TestSecretsAreReplacedWhereverTheyWouldBeShown(t *testing.T) {
	m := module(func(_ context.Context, env *Env, _ *arguments) (Result, error) {
		env.Secret("fetched-token")
		env.Progress.Say("node", "with s3cret-password")
		return Result{
			Msg:  "s3cret-password, fetched-token",
			Data: map[string]any{"deep": []any{map[string]any{"czNjcmV0LXBhc3N3b3Jk": "x s3cret-password"}}, "short": "ab 1234 4321", "digest": "ff1234ff"},
		}, errors.New("open: s3cret\"quoted")
	})
	result, stderr, _ := run(t, t.Context(), m, `{"name": "x", "inner": {"password": "s3cret-password"}, "key": "s3cret\"quoted", "spec": {"some_token": "1234"}}`)
	text := fmt.Sprint(result) + stderr
	for _, secret := range []string{"s3cret", "fetched-token", "czNjcmV0", " 1234"} {
		assert.NotContains(t, text, secret)
	}
	assert.Equal(t, "ff1234ff", result["digest"], "a short secret is no reason to break a digest")
}

func TestAnyOtherErrorHasACode(t *testing.T) {
	tests := map[string]struct {
		err  error
		code string
	}{
		"a deadline":         {fmt.Errorf("get: %w", context.DeadlineExceeded), "timeout"},
		"an unforeseen one":  {errors.New("boom"), "internal"},
		"a cancelled action": {fmt.Errorf("get: %w", context.Canceled), "interrupted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result, _, _ := run(t, t.Context(), module(func(context.Context, *Env, *arguments) (Result, error) { return Result{}, test.err }), `{"name": "x"}`)
			assert.Equal(t, test.code, result["reason"])
		})
	}
}

func TestTheArgumentFileIsCheckedBeforeAnythingRuns(t *testing.T) {
	m := module(func(context.Context, *Env, *arguments) (Result, error) { panic("must not run") })
	for name, input := range map[string]string{
		"no object": `[]`, "null": `null`, "garbage": `{"password": "hunter2`, "two objects": `{} {}`, "empty": ``, "too large": `{"name": "` + strings.Repeat("x", maxArguments) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			result, _, code := run(t, t.Context(), m, input)
			assert.Equal(t, 1, code)
			assert.Equal(t, "argument_invalid", result["reason"])
			assert.NotContains(t, result["msg"], "hunter2")
		})
	}
	var out bytes.Buffer
	assert.Equal(t, 1, Run(t.Context(), m, nil, &out, &out))
	assert.Contains(t, out.String(), "argument_invalid")
}

func TestAResultNeverHoldsAKeyThatAnsibleTakesForItsOwn(t *testing.T) {
	result, _, _ := run(t, t.Context(), module(func(context.Context, *Env, *arguments) (Result, error) {
		return Result{Data: map[string]any{"results": "x"}}, nil
	}), `{"name": "x"}`)
	assert.Equal(t, "internal", result["reason"])
}

func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"name": "x", "timeout": "5", "inner": {"port": 1, "password": "hunter2hunter2"}, "users": "a,b", "labels": {"a": null}}`))
	f.Add([]byte(`{"name": "x", "connection": "{\"port\": 1}", "spec": {"a": [1, {}, null]}, "_ansible_check_mode": true}`))
	f.Add([]byte(`{"timout": 1}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		raw, err := parseObject(input)
		if err != nil {
			return
		}
		var args arguments
		err = Decode(raw, &args)
		if err != nil {
			require.True(t, reason.Is(err, reason.ArgumentInvalid), "%v", err)
			return
		}
		require.NotEmpty(t, args.Name)
		require.Contains(t, []string{"present", "absent"}, args.State)
	})
}
