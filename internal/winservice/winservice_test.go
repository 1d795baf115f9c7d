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

func TestADifferentCommandLineIsNamedArgumentByArgument(t *testing.T) {
	diff := func(have, want string) []string {
		return drift.Texts(Diff(Config{CommandLine: have}, Config{CommandLine: want}))
	}
	require.Equal(t, []string{
		`program 1: 'C:\k\1\a.exe', not 'C:\k\2\a.exe'`, `argument --v: '9', not '2'`, `argument --x: it is missing, and shall be 'y'`,
		`argument --z: it is there ('') and shall not be`,
	}, diff(`C:\k\1\a.exe --v=9 --z`, `C:\k\2\a.exe --v=2 --x=y`))
	require.Equal(t, []string{`command line: 'a --v=1 --w=1', not 'a --w=1 --v=1'`}, diff("a --v=1 --w=1", "a --w=1 --v=1"))
	require.Equal(t, []string{`command line: '"a b" --v=1', not '"a b" --v=2'`}, diff(`"a b" --v=1`, `"a b" --v=2`))
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
	require.Len(t, list, 10)
	require.NotContains(t, strings.Join(list, " "), "secret")
	require.Contains(t, list, "start type: 'manual', not 'auto'")
	require.True(t, NeedsRestart(Config{}, want))
}
