// Command sshsession runs the command of an SSH session as Windows' OpenSSH does: cmd.exe /c "COMMAND", byte for byte, with the session's
// standard handles, and exits with its code. The command comes in WINHOST_COMMAND, since no quoting survives Wine's own command line.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

const variable = "WINHOST_COMMAND"

func main() {
	command := os.Getenv(variable)
	os.Unsetenv(variable)
	err := run(command)
	// A busy Wine now and then cannot start a process; nothing has run then.
	for attempt := 0; attempt < 5 && errors.Is(err, windows.ERROR_INTERNAL_ERROR); attempt++ {
		time.Sleep(100 * time.Millisecond)
		err = run(command)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "sshsession:", err)
		os.Exit(255)
	}
}

func run(command string) error {
	cmd := exec.Command(os.Getenv("ComSpec"))
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /c "` + command + `"`}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
