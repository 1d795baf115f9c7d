package transaction

import (
	"errors"
	"fmt"
	"os"

	"wsu.windows/internal/reason"
)

// errLocked is what the systems' lock calls become where another process holds the lock.
var errLocked = errors.New("locked")

// Lock lets one process at a time work on the machine. The operating system releases it when the process ends, however it ends; the file
// itself stays and means nothing. The error has the reason NodeBusy where another process holds it.
func Lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := lockFile(file); err != nil {
		file.Close()
		if errors.Is(err, errLocked) {
			return nil, reason.New(reason.NodeBusy, path, "another wmcb is changing this machine", "")
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}
