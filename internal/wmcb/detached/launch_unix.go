//go:build unix

package detached

import (
	"os"
	"syscall"
)

func temporary() string { return os.TempDir() }

func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
