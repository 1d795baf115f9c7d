// Command sshsession runs the command of an SSH session as Windows' OpenSSH does: cmd.exe /c "COMMAND", byte for byte, with the session's
// standard handles, and exits with its code. The command comes in WINHOST_COMMAND, since no quoting survives Wine's own command line.
//
// It runs the commands of WinRM shells too (WINHOST_REMOTE=winrm), with what such a shell adds: a directory and variables of its own, a
// program without cmd.exe, a job that ends with the command, and the exit code's 32 bits in a file.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// longestLine is the longest command line that cmd.exe takes, in characters.
const longestLine = 8191

func main() {
	s := sessionFromEnvironment()
	code, err := s.attempt()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if s.resultFile != "" {
		if err := os.WriteFile(s.resultFile, []byte(strconv.FormatUint(uint64(code), 10)), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, "sshsession:", err)
		}
	}
	os.Exit(int(code))
}

// attempt runs the command and returns its exit code; the error is why it did not run.
func (s session) attempt() (uint32, error) {
	if s.winrm {
		if err := enterJob(); err != nil {
			return 255, fmt.Errorf("sshsession: job: %w", err)
		}
	}
	if !s.direct && len(s.command) > longestLine {
		return 1, errors.New("The command line is too long.") //nolint:staticcheck // cmd.exe's words
	}
	err := s.run()
	// A busy Wine now and then cannot start a process; nothing has run then.
	for attempt := 0; attempt < 5 && errors.Is(err, windows.ERROR_INTERNAL_ERROR); attempt++ {
		time.Sleep(100 * time.Millisecond)
		err = s.run()
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return uint32(exit.ExitCode()), nil
	case err != nil:
		return 255, fmt.Errorf("sshsession: %w", err)
	}
	return 0, nil
}

func (s session) run() error {
	program, line := os.Getenv("ComSpec"), `cmd.exe /c "`+s.command+`"`
	if s.direct {
		words, err := windows.DecomposeCommandLine(s.command)
		if err != nil {
			return err
		}
		if program, err = exec.LookPath(words[0]); err != nil {
			return err
		}
		line = s.command
	}
	cmd := exec.Command(program)
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: line}
	cmd.Dir = s.directory
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
