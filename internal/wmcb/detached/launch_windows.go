package detached

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

func temporary() string { return filepath.Join(os.Getenv("SystemRoot"), "Temp") }

// attributes: no console that could be closed, a group that no Ctrl-C of the session reaches, and not in the session's job: WinRM ends
// everything in that when the session ends.
func attributes(breakAway bool) *syscall.SysProcAttr {
	flags := uint32(windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP)
	if breakAway {
		flags |= windows.CREATE_BREAKAWAY_FROM_JOB
	}
	return &syscall.SysProcAttr{CreationFlags: flags}
}
