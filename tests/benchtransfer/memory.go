package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// watch follows the high-water marks of a process and of every wmcb.exe; the function that it gives ends that and tells them, in bytes. The
// kernel's own account of a child (rusage) counts what its parent had when it forked.
func watch(pid int) (stop func() (control, wmcb int64)) {
	const often = 10 * time.Millisecond
	done, result := make(chan struct{}), make(chan [2]int64)
	go func() {
		var most [2]int64
		for {
			most[0] = max(most[0], highWater(fmt.Sprintf("/proc/%d", pid)))
			all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
			for _, process := range all {
				if name, err := os.ReadFile(filepath.Join(process, "comm")); err == nil && strings.HasPrefix(string(name), "wmcb.exe") {
					most[1] = max(most[1], highWater(process))
				}
			}
			select {
			case <-done:
				result <- most
				return
			case <-time.After(often):
			}
		}
	}()
	return func() (int64, int64) {
		close(done)
		most := <-result
		return most[0], most[1]
	}
}

func highWater(process string) int64 {
	status, err := os.ReadFile(filepath.Join(process, "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(string(line)), 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}
