package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	userConfigFile   = "~/.ssh/config"
	systemConfigFile = "/etc/ssh/ssh_config"
	// maxIncludes is how deep files may include one another, as with OpenSSH.
	maxIncludes = 16
)

// configReader adds to the options what the files say of one host.
type configReader struct {
	*options
	host      string // as it was asked for
	localUser string
	final     bool // the second round, in which `Match final` holds
	wantFinal bool
}

// readConfig reads the file of -F, or the user's and the system's.
func readConfig(o *options, host, localUser, only string) error {
	r := &configReader{options: o, host: host, localUser: localUser}
	read := func() error {
		if only == "none" {
			return nil
		}
		if only != "" {
			return r.file(home(only), true, 0)
		}
		for _, path := range []string{home(userConfigFile), systemConfigFile} {
			if err := r.file(path, true, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	err := read()
	if err == nil && r.wantFinal {
		r.final = true
		err = read()
	}
	return err
}

// file reads one file, where active says whether its beginning, before the first Host or Match, concerns the host.
func (r *configReader) file(path string, active bool, depth int) error {
	if depth > maxIncludes {
		return fmt.Errorf("%s: files include one another more than %d times", path, maxIncludes)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	included := active
	condition := "" // what of the block's Match cannot be decided here
	for number, line := range strings.Split(string(raw), "\n") {
		where := fmt.Sprintf("%s:%d", path, number+1)
		name, rest := keyword(line)
		if name == "" || name[0] == '#' {
			continue
		}
		switch name {
		case "host", "match":
			var list []string
			if list, err = configWords(rest); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
			active, condition = matchesAny(list, r.host), ""
			if name == "match" {
				active, condition = r.match(list)
			}
			active = active && included
		case "include":
			err = r.include(rest, active, depth, filepath.Dir(path), where)
		default:
			if active {
				err = r.line(option{name: name, value: rest, where: where}, condition)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// line takes an option, unless it stands under a condition that cannot be decided and could change who is talked to.
func (r *configReader) line(new option, condition string) error {
	if !slices.Contains(honoured, new.name) {
		return nil
	}
	if condition != "" {
		matters := []string{"hostname", "port", "user", "hostkeyalias", "userknownhostsfile", "globalknownhostsfile", "revokedhostkeys", proxyJump, proxyCommand}
		if r.has(new.name) || !slices.Contains(matters, new.name) {
			return nil
		}
		return fmt.Errorf("%s: %s stands under `Match %s`, which is not supported", new.where, new.name, condition)
	}
	if _, err := configWords(new.value); err != nil && new.name != proxyCommand {
		return fmt.Errorf("%s: %w", new.where, err)
	}
	r.add(new)
	return nil
}

// match decides a Match line; what it cannot decide it gives as condition.
func (r *configReader) match(list []string) (active bool, condition string) {
	active = true
	for len(list) > 0 {
		name, value, attached := strings.Cut(list[0], "=")
		bare, not := strings.CutPrefix(strings.ToLower(name), "!")
		list = list[1:]
		holds := true
		switch bare {
		case "all":
		case "final", "canonical":
			r.wantFinal = r.wantFinal || bare == "final"
			holds = r.final
		default:
			if !attached && len(list) > 0 {
				value, list = list[0], list[1:]
			}
			text, known := r.criterion(bare)
			if !known {
				condition = bare
				continue
			}
			if strings.HasSuffix(bare, "host") {
				value = strings.ToLower(value) // OpenSSH does so here, though not for Host
			}
			holds = matchesAny(strings.Split(value, ","), text)
		}
		active = active && holds != not
	}
	return active, condition
}

// criterion gives the text that a criterion of Match is compared with.
func (r *configReader) criterion(name string) (string, bool) {
	switch name {
	case "host":
		if named, err := expand(r.get("hostname"), map[byte]string{'h': r.host}); err == nil && named != "" {
			return named, true
		}
		return r.host, true
	case "originalhost":
		return r.host, true
	case "user":
		return firstOf(r.get("user"), r.localUser), true
	case "localuser":
		return r.localUser, true
	}
	return "", false
}

// include reads the files of an Include in the order of their names; that none is there is no error.
func (r *configReader) include(rest string, active bool, depth int, folder, where string) error {
	patterns, err := configWords(rest)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	for _, pattern := range patterns {
		if pattern, err = expandPath(pattern, nil); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if !filepath.IsAbs(pattern) {
			base := home("~/.ssh")
			if strings.HasPrefix(folder+"/", filepath.Dir(systemConfigFile)+"/") {
				base = filepath.Dir(systemConfigFile)
			}
			pattern = filepath.Join(base, pattern)
		}
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		for _, path := range paths {
			if err := r.file(path, active, depth+1); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
