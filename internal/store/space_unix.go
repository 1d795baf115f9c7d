//go:build unix

package store

import (
	"errors"
	"syscall"
)

func freeBytes(dir string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

func isFullHere(error) bool { return false }

func isHeldHere(err error) bool { return errors.Is(err, syscall.ETXTBSY) }
