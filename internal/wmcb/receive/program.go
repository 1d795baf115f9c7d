package receive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wsu.windows/internal/securefile"
)

// program is the wmcb.exe that runs, and its place in the install folder.
type program struct {
	self, target string
	// sha256 is its own digest; installed is true where the one of the install folder is the same.
	sha256    string
	size      int64
	installed bool
	// moved is true once a temporary copy is gone from where it was brought.
	moved bool
}

func thisProgram(options Options) (p program, err error) {
	p = program{self: options.self, target: filepath.Join(options.Install, "wmcb.exe")}
	info, err := os.Stat(p.self)
	if err != nil {
		return p, err
	}
	p.size = info.Size()
	p.installed = strings.EqualFold(filepath.Clean(p.self), p.target)
	return p, nil
}

// needs gives how many bytes of the drive it may take to install it.
func (p *program) needs() int64 {
	if p.installed {
		return 0
	}
	return p.size
}

// compare finds out the digest, and whether the install folder has the same program already.
func (p *program) compare() (err error) {
	if p.sha256, err = securefile.Digest(p.self); err != nil || p.installed {
		return err
	}
	found, err := securefile.Digest(p.target)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	p.installed = found == p.sha256
	return err
}

// install moves a copy that was brought for this run into place, which Windows allows while it runs, and copies any other.
func (p *program) install() error {
	if p.installed {
		p.sweep()
		return nil
	}
	err := errors.ErrUnsupported
	if p.isTemporary() {
		if err = securefile.Move(p.self, p.target); err == nil {
			err = securefile.Protect(p.target)
			p.moved = os.Remove(filepath.Dir(p.self)) == nil // else whoever brought it sees to the folder
		}
	}
	if err != nil {
		err = securefile.Copy(p.self, p.target, p.sha256)
	}
	p.sweep()
	return err
}

// temporaryFolders matches where the control host puts copies.
func temporaryFolders() string { return filepath.Join(os.Getenv("SystemRoot"), "Temp", "wsu-*") }

func (p *program) isTemporary() bool {
	matches, err := filepath.Match(strings.ToLower(filepath.Join(temporaryFolders(), "wmcb.exe")), strings.ToLower(p.self))
	return err == nil && matches
}

// sweep deletes what replaced programs left, and the copies of killed runs, as far as nobody runs them. A folder's time is this machine's; what
// tar.exe has unpacked has the archive's.
func (p *program) sweep() {
	const lifetime = 24 * time.Hour
	securefile.SweepAside(filepath.Dir(p.target))
	left, _ := filepath.Glob(filepath.Join(temporaryFolders(), "wmcb.exe")) // the pattern is good
	for _, path := range left {
		if info, err := os.Stat(filepath.Dir(path)); err != nil || strings.EqualFold(path, p.self) || time.Since(info.ModTime()) < lifetime {
			continue
		}
		if os.Remove(path) == nil {
			os.Remove(filepath.Dir(path))
		}
	}
}
