package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wsu.windows/internal/drift"
	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/reason"
)

// wmcb runs the program; its document is what stdout has.
func wmcb(t *testing.T, stdin string, args ...string) (code int, header nodereport.Header, stdout string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(stdin), &out, &errs})
	_ = json.Unmarshal(out.Bytes(), &header)
	return code, header, out.String()
}

func TestEveryMistakeOnTheCommandLineIsADocumentThatNamesIt(t *testing.T) {
	for says, args := range map[string][]string{
		`no subcommand "aply"`:        {"aply"},
		"not defined: -x":             {"apply", "-x"},
		`"more" is one argument`:      {"status", "more"},
		`not "xml"`:                   {"status", "--output", "xml"},
		"-f is missing":               {"enroll"},
		"--to is missing":             {"collect"},
		"--kubelet-path are both":     {"initialize-kubelet", "--ignition-file", "x"},
		`invalid value "soon" for fl`: {"apply", "--wait", "soon"},
	} {
		code, header, out := wmcb(t, "", args...)
		assert.Equal(t, exitUsage, code, args)
		require.NotNil(t, header.Error, out)
		assert.Equal(t, reason.ArgumentInvalid, header.Error.Code)
		assert.Contains(t, header.Error.Problem, says)
		assert.Contains(t, header.Error.Remedy, "help")
		assert.Equal(t, 1, strings.Count(out, "\n"), "one document on one line")
	}
}

func TestASpecificationThatIsWrongChangesNothingAndNamesTheField(t *testing.T) {
	code, header, _ := wmcb(t, "kind: NodeSpec\nnmae: x\n", "apply", "-f", "-")
	assert.Equal(t, 3, code)
	assert.Equal(t, reason.SpecInvalid, header.Error.Code)
	assert.Equal(t, "nmae", header.Error.Object)

	code, header, _ = wmcb(t, `{"nodeNmae": "x"}`, "preflight", "-f", "-")
	assert.Equal(t, 3, code)
	assert.Contains(t, header.Error.Problem, "nodeNmae")

	code, header, _ = wmcb(t, strings.Repeat(" ", 2<<20), "apply", "-f", "-")
	assert.Equal(t, 3, code)
	assert.Contains(t, header.Error.Problem, "more than")
}

func TestVersionSaysWhichProgramItIs(t *testing.T) {
	code, header, out := wmcb(t, "", "version")
	assert.Zero(t, code)
	assert.True(t, header.OK)
	var version nodereport.Version
	require.NoError(t, json.Unmarshal([]byte(out), &version))
	assert.Len(t, version.SHA256, 64)
	assert.Equal(t, []int{2}, version.StreamVersions)
}

func TestReceivePlansWithoutChangingAnything(t *testing.T) {
	install := filepath.Join(t.TempDir(), "k")
	code, header, out := wmcb(t, `{"version": 2, "contents": [{"sha256": "`+strings.Repeat("a", 64)+`", "size": 5}]}`, "receive", "--install-dir", install, "--plan")
	assert.Zero(t, code, out)
	assert.False(t, header.Changed)
	assert.Contains(t, out, strings.Repeat("a", 64))
	assert.NoDirExists(t, install)
}

func TestTheSupportArchiveGoesToTheStandardOutputAndItsDocumentToTheErrorOutput(t *testing.T) {
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"collect", "--install-dir", t.TempDir(), "--log-dir", t.TempDir(), "--to", "-"}, streams{strings.NewReader(""), &out, &errs})
	assert.Zero(t, code)
	assert.True(t, bytes.HasPrefix(out.Bytes(), []byte("PK")))
	var document nodereport.Collect
	require.NoError(t, json.Unmarshal(errs.Bytes(), &document))
	assert.EqualValues(t, out.Len(), document.Size)
}

func TestEveryReasonOfAHostHasAnExitCodeOfItsGroup(t *testing.T) {
	seen := map[reason.Code]bool{}
	for _, group := range exitGroups {
		for _, code := range group.reasons {
			assert.False(t, seen[code], "%s is in two groups", code)
			seen[code] = true
		}
	}
	for _, entry := range reason.Table {
		if (entry.Where == "host" || entry.Where == "join" || entry.Where == "transfer") && entry.Code != reason.NotWindows && entry.Code != reason.HostOutputInvalid {
			assert.True(t, seen[entry.Code], "%s has no exit code", entry.Code)
		}
	}
}

func TestTheDocumentedExitCodesAreTheCodes(t *testing.T) {
	page, err := os.ReadFile("../../docs/wmcb.md")
	require.NoError(t, err)
	lines := []string{"| 0 | success | |", "| 1 | an error that nobody foresaw | `internal` |", "| 2 | a mistake on the command line | `argument_invalid` |"}
	for _, group := range exitGroups {
		names := make([]string, len(group.reasons))
		for i, code := range group.reasons {
			names[i] = "`" + string(code) + "`"
		}
		lines = append(lines, fmt.Sprintf("| %d | %s | %s |", group.code, group.meaning, strings.Join(names, ", ")))
	}
	assert.Contains(t, string(page), strings.Join(lines, "\n"), "the table of docs/wmcb.md shall be:\n"+strings.Join(lines, "\n"))
}

func TestADetachedRunNeedsANameAndASubcommand(t *testing.T) {
	for _, args := range [][]string{{"run"}, {"run", "--id", "x", "status"}, {"run", "--wrong"}} {
		code, header, _ := wmcb(t, "", args...)
		assert.NotZero(t, code)
		require.NotNil(t, header.Error, args)
		assert.Equal(t, reason.ArgumentInvalid, header.Error.Code)
	}
}

func TestAStatusForPeopleNamesEachDifferenceOnALine(t *testing.T) {
	report := &nodereport.Status{
		Header: nodereport.Header{Kind: "Status", OK: true}, Joined: &nodereport.Joined{Release: "2.0.0", NodeName: "win1", KubeletVersion: "v1.36.3"},
		RollbackTo: "1.0.0", Services: []nodereport.ServiceStatus{{Name: "kubelet", State: "running", StartType: "manual", PID: 7}},
		Differences: []nodereport.Difference{
			{Step: "kubelet-service", Object: "kubelet", Difference: drift.Difference{Field: "start type", Seen: "'manual'", Desired: "'auto'"}},
			{Step: "transaction", Difference: drift.Difference{Seen: "it is unfinished"}},
		},
	}
	var out bytes.Buffer
	require.NoError(t, printText(&out, "status", report))
	assert.Equal(t, `node         win1, release 2.0.0, kubelet v1.36.3
rollback     goes to release 1.0.0
service      kubelet is running, start type manual, process 7
differs      kubelet: start type: 'manual', not 'auto'
differs      it is unfinished
`, out.String())
}

func TestARollbackWhereThereIsNothingSaysSoAndHasAnExitCodeOfItsOwn(t *testing.T) {
	code, header, _ := wmcb(t, "", "rollback", "--install-dir", filepath.Join(t.TempDir(), "k"))
	assert.Equal(t, 11, code)
	assert.Equal(t, "Rollback", header.Kind)
	assert.Equal(t, reason.RollbackUnavailable, header.Error.Code)
}
