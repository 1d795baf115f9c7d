// Command tell prints its arguments as JSON, or does what its first argument says: "sum" prints the SHA-256 of stdin, "copy" prints stdin,
// "exit" ends with the code that follows, "wait" writes its process number to the file that follows and goes on until it is killed,
// "breakaway" leaves such a process behind, outside of its job, "lives" says whether a process does, and "reboot" asks Windows for one.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "sum" {
		sum := sha256.New()
		if _, err := io.Copy(sum, os.Stdin); err != nil {
			panic(err)
		}
		fmt.Printf("%x\n", sum.Sum(nil))
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "reboot" {
		const planned = 0x80000000
		if err := windows.InitiateSystemShutdownEx(nil, nil, 0, true, true, planned); err != nil {
			panic(err)
		}
		return
	}
	if len(os.Args) > 1 && act(os.Args[1], os.Args[2:]) {
		return
	}
	json.NewEncoder(os.Stdout).Encode(os.Args[1:])
}

func act(verb string, args []string) bool {
	switch {
	case verb == "copy" && len(args) == 0:
		_, err := io.Copy(os.Stdout, os.Stdin)
		check(err)
	case verb == "exit" && len(args) == 1:
		code, err := strconv.ParseUint(args[0], 0, 32)
		check(err)
		os.Exit(int(code))
	case verb == "wait" && len(args) == 1:
		check(os.WriteFile(args[0], []byte(strconv.Itoa(os.Getpid())), 0o644))
		time.Sleep(time.Hour)
	case verb == "breakaway" && len(args) == 1:
		cmd := exec.Command(os.Args[0], "wait", args[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_BREAKAWAY_FROM_JOB}
		check(cmd.Start())
	case verb == "lives" && len(args) == 1:
		pid, err := strconv.Atoi(args[0])
		check(err)
		fmt.Println(lives(pid))
	default:
		return false
	}
	return true
}

func lives(pid int) bool {
	process, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	event, err := windows.WaitForSingleObject(process, 0)
	check(err)
	return event == uint32(windows.WAIT_TIMEOUT)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
