package compat_test

// These tests run on a Windows host of the sandbox (winhost's tests build and start them there). They state what Windows does, each in
// the way in which product code asks for it, and would pass on Windows as well.

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/windows/svc"
)

// TestMain makes this executable its own Windows service: `service FILE` writes the service's environment variable to FILE and obeys;
// `crash` dies while it runs; `hold` waits until its stdin ends; `listen PATH` listens on a
// Unix socket until it is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "service":
			serve(func() { os.WriteFile(os.Args[2], []byte(os.Getenv("WSU_COMPAT")), 0o644) })
		case "crash":
			serve(func() { go func() { time.Sleep(300 * time.Millisecond); os.Exit(3) }() })
		case "listen":
			if _, err := net.Listen("unix", os.Args[2]); err != nil {
				os.Exit(12)
			}
			os.Stdout.WriteString("listening")
			time.Sleep(time.Hour)
		case "hold":
			os.Stdin.Read(make([]byte, 1))
			return
		}
	}
	os.Exit(m.Run())
}

func serve(began func()) {
	if is, err := svc.IsWindowsService(); err != nil || !is {
		os.Exit(10)
	}
	if err := svc.Run("", handler(began)); err != nil {
		os.Exit(11)
	}
	os.Exit(0)
}

type handler func()

func (h handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	h()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop}
	for request := range requests {
		if request.Cmd == svc.Stop {
			break
		}
		status <- request.CurrentStatus
	}
	status <- svc.Status{State: svc.StopPending}
	return false, 0
}
