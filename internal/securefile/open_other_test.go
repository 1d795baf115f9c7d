//go:build !windows

package securefile

import "os"

func openToEverybody(path string) error { return os.Chmod(path, 0o644) }
