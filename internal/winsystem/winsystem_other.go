//go:build !windows

package winsystem

// Read see the Windows version.
func Read() (Info, error) { return Info{}, ErrNotWindows }

// FreeBytes see the Windows version.
func FreeBytes(string) (int64, error) { return 0, ErrNotWindows }

// Interfaces see the Windows version.
func Interfaces() ([]Interface, error) { return nil, ErrNotWindows }

// HasPipe see the Windows version.
func HasPipe(string) bool { return false }
