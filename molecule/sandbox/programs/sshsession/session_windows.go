package main

import (
	"encoding/json"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// session is what the Linux side asks for.
type session struct {
	command       string
	winrm, direct bool
	directory     string
	resultFile    string // receives the exit code, in decimal
}

// sessionFromEnvironment takes the request out of the environment, so that the command does not inherit it, and sets the shell's variables.
func sessionFromEnvironment() session {
	take := func(name string) string {
		value := os.Getenv(name)
		os.Unsetenv(name)
		return value
	}
	s := session{
		command: take("WINHOST_COMMAND"), winrm: take("WINHOST_REMOTE") == "winrm", direct: take("WINHOST_DIRECT") == "yes",
		directory: take("WINHOST_DIRECTORY"), resultFile: take("WINHOST_RESULT_FILE"),
	}
	take("WINHOST_RESULT")
	var variables map[string]string
	if text := take("WINHOST_ENVIRONMENT"); text != "" {
		if err := json.Unmarshal([]byte(text), &variables); err != nil {
			fmt.Fprintln(os.Stderr, "sshsession: the shell's variables:", err)
		}
	}
	for name, value := range variables {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, "sshsession: variable", name+":", err)
		}
	}
	return s
}

// enterJob puts this process, and with it those that it starts, into a job that ends with it. A process may break away, as it may from
// the job of a WinRM shell on Windows.
func enterJob() error {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return err
	}
	return windows.AssignProcessToJobObject(job, windows.CurrentProcess())
}
