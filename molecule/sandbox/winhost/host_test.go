package winhost

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func example(t *testing.T) *Host {
	t.Helper()
	base := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(base, digestFile), nil, 0o600))
	return &Host{Name: "winhost1", Address: netip.MustParsePrefix("10.98.0.11/16"), Bridge: "b", Dir: t.TempDir(), BaseDir: base, Password: "p"}
}

func TestAHostThatCannotStartSaysWhatToChange(t *testing.T) {
	require.NoError(t, example(t).validate())
	for message, spoil := range map[string]func(*Host){
		"use 1 to 15 letters, digits and dashes": func(h *Host) { h.Name = "a_b" },
		"not a windows host name":                func(h *Host) { h.Name = "sixteencharacter" },
		"an IPv4 address with its subnet":        func(h *Host) { h.Address = netip.Prefix{} },
		"no bridge":                              func(h *Host) { h.Bridge = "" },
		"at most 15 characters":                  func(h *Host) { h.Link = "sixteencharacter" },
		"neither key nor password":               func(h *Host) { h.Password = "" },
		"call Prepare first":                     func(h *Host) { h.BaseDir = h.Dir },
	} {
		h := example(t)
		spoil(h)
		assert.ErrorContains(t, h.validate(), message)
	}
}

func TestRegistryTextsAreEscaped(t *testing.T) {
	assert.Equal(t, `"ImagePath"="\"C:\\a b\\c.exe\" -x"`, text("ImagePath", `"C:\a b\c.exe" -x`))
	assert.Equal(t, "\n[System\\\\X Y] 1700000000\n\"n\"=dword:000000ff\n", key(`System\X Y`, number("n", 255)))
}

func TestEveryHostHasAnIdentityOfItsOwnThatStays(t *testing.T) {
	a, b := example(t), example(t)
	assert.Regexp(t, `^\{[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}\}$`, a.hardwareGUID())
	assert.Equal(t, a.hardwareGUID(), a.hardwareGUID())
	assert.NotEqual(t, a.hardwareGUID(), b.hardwareGUID())
	assert.NotEqual(t, a.veth(), b.veth())
	assert.LessOrEqual(t, len(a.veth()), 15)
}

func TestAProcessNumberThatWasGivenAwayIsNotTheHost(t *testing.T) {
	_, ticks, err := processState(os.Getpid())
	require.NoError(t, err)
	assert.True(t, alive(record{PID: os.Getpid(), Ticks: ticks}))
	assert.False(t, alive(record{PID: os.Getpid(), Ticks: ticks + 1}))
	assert.False(t, alive(record{}))
}
