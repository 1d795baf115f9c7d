package winservice

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wsu.windows/internal/drift"
)

func TestCommandLineQuotesAsWindowsTakesItApart(t *testing.T) {
	for want, args := range map[string][]string{
		`C:\k\a.exe --x=1`:                     {`C:\k\a.exe`, `--x=1`},
		`"C:\Program Files\a.exe" --x`:         {`C:\Program Files\a.exe`, `--x`},
		`a ""`:                                 {`a`, ``},
		`a "say \"hi\""`:                       {`a`, `say "hi"`},
		`a "C:\with space\\" b`:                {`a`, `C:\with space\`, `b`},
		`a C:\plain\ b`:                        {`a`, `C:\plain\`, `b`},
		`a "back\\\"slash"`:                    {`a`, `back\"slash`},
		`a --node-labels=a=b,c=d "tab	inside"`: {`a`, `--node-labels=a=b,c=d`, "tab\tinside"},
	} {
		require.Equal(t, want, CommandLine(args))
	}
}

func TestDiffNamesEveryFieldAndShowsNoEnvironment(t *testing.T) {
	want := Config{
		CommandLine: "a.exe --x", StartType: StartAuto, Dependencies: []string{"containerd"}, Environment: []string{"HTTPS_PROXY=http://u:secret@p"},
		Recovery: Recovery{Restarts: []time.Duration{time.Second}, ResetAfter: time.Hour, OnErrors: true}, DisplayName: "d", Description: "e",
	}
	require.Empty(t, Diff(want, want))
	same := want
	same.Account, same.Dependencies = "localsystem", []string{"Containerd"}
	require.Empty(t, Diff(same, want))
	require.False(t, NeedsRestart(same, want))
	list := drift.Texts(Diff(Config{StartType: StartManual}, want))
	require.Len(t, list, 9)
	require.NotContains(t, strings.Join(list, " "), "secret")
	require.Contains(t, list, "start type: 'manual', not 'auto'")
	require.True(t, NeedsRestart(Config{}, want))
}
