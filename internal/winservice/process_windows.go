package winservice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// processTable is the machine's.
type processTable struct{}

// OpenProcesses gives the machine's process table.
func OpenProcesses() Processes { return processTable{} }

func (processTable) Under(folder string) ([]Process, error) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	defer windows.CloseHandle(snapshot)
	prefix := strings.ToLower(folder) + `\`
	var found []Process
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		path := imagePath(entry.ProcessID)
		if strings.HasPrefix(strings.ToLower(path), prefix) {
			found = append(found, Process{entry.ProcessID, path})
		}
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return nil, fmt.Errorf("process table: %w", err)
	}
	return found, nil
}

// imagePath gives "" for what has ended meanwhile and for the system's own processes.
func imagePath(pid uint32) string {
	handle, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return ""
	}
	defer windows.CloseHandle(handle)
	buffer := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(buffer))
	if err := windows.QueryFullProcessImageName(handle, 0, &buffer[0], &size); err != nil {
		return ""
	}
	return windows.UTF16ToString(buffer[:size])
}

func (processTable) Wait(ctx context.Context, processes []Process) error {
	for _, process := range processes {
		if err := waitFor(ctx, process); err != nil {
			return err
		}
	}
	return nil
}

func waitFor(ctx context.Context, process Process) error {
	handle, err := windows.OpenProcess(windows.SYNCHRONIZE, false, process.PID)
	if err != nil {
		return nil // it has gone
	}
	defer windows.CloseHandle(handle)
	for {
		event, err := windows.WaitForSingleObject(handle, uint32((4*poll)/time.Millisecond))
		if err != nil {
			return fmt.Errorf("process %d (%s): %w", process.PID, process.Path, err)
		}
		if event == windows.WAIT_OBJECT_0 {
			return nil
		}
		// The number may have been given to another program since.
		if !strings.EqualFold(imagePath(process.PID), process.Path) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("process %d (%s) still runs: %w", process.PID, process.Path, ctx.Err())
		}
	}
}

func (processTable) Kill(processes []Process) error {
	for _, process := range processes {
		handle, err := windows.OpenProcess(windows.PROCESS_TERMINATE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, process.PID)
		if err != nil {
			continue
		}
		if strings.EqualFold(imagePath(process.PID), process.Path) {
			err = windows.TerminateProcess(handle, 1)
		}
		windows.CloseHandle(handle)
		if err != nil && !errors.Is(err, windows.ERROR_ACCESS_DENIED) { // denied: it is ending already
			return fmt.Errorf("process %d (%s): %w", process.PID, process.Path, err)
		}
	}
	return nil
}
