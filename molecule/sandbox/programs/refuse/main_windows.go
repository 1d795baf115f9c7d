// Command refuse takes the place of a tool that Wine only pretends to have: it writes the call down and fails, so that no test passes
// because a tool did nothing and reported success.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

const log = `C:\sandbox\refused.log`

func main() {
	tool := filepath.Base(os.Args[0])
	if path, err := os.Executable(); err == nil {
		tool = filepath.Base(path)
	}
	line := fmt.Sprintf("%s %s\r\n", time.Now().UTC().Format(time.RFC3339), windows.UTF16PtrToString(syscall.GetCommandLine()))
	if file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		file.WriteString(line)
		file.Close()
	}
	fmt.Fprintf(os.Stderr, "%s: this sandbox host has no %s: the call was written to %s\r\n", tool, tool, log)
	os.Exit(1)
}
