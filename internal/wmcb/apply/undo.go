package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"wsu.windows/internal/firewall"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transaction"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/state"
)

// Kinds of undo. They are part of the journal's format: never renamed.
const (
	undoFile         = "file"
	undoFolderKind   = "folder"
	undoRename       = "rename"
	undoService      = "service"
	undoServiceStop  = "service-stop"
	undoServiceStart = "service-start"
	undoFirewall     = "firewall"
)

type fileUndo struct {
	Path string `json:"path"`
	// Backup has the old content; empty where there was no file.
	Backup string `json:"backup,omitempty"`
}

type folderUndo struct {
	Path string `json:"path"`
}

type renameUndo struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type serviceUndo struct {
	Name string `json:"name"`
	// Config is the old definition; nil where there was no service.
	Config *winservice.Config `json:"config,omitempty"`
	// Folder is where the service's programs lie.
	Folder string `json:"folder,omitempty"`
	// Dependants are the services that were stopped with it.
	Dependants []string `json:"dependants,omitempty"`
}

type firewallUndo struct {
	Name string         `json:"name"`
	Rule *firewall.Rule `json:"rule,omitempty"`
}

func undoFolder(install string) string { return filepath.Join(install, state.UndoName) }

// decoded makes an Undoer of a function that takes its own data. Data with fields of a newer release are refused: they may matter.
func decoded[T any](undo func(ctx context.Context, data T) error) transaction.Undoer {
	return func(ctx context.Context, raw json.RawMessage) error {
		var data T
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&data); err != nil {
			return reason.New(reason.StateUnreadable, state.JournalName, "how to undo the step: "+err.Error(), "")
		}
		return undo(ctx, data)
	}
}

// NewEngine gives the engine of an install folder.
func NewEngine(install string, host Host) *transaction.Engine {
	var journal transaction.Journal = &transaction.FileJournal{Path: filepath.Join(install, state.JournalName)}
	if host.Journal != nil {
		journal = host.Journal(journal)
	}
	return &transaction.Engine{
		Journal: journal,
		Committed: func(id string) (bool, error) {
			current, err := state.Load(install)
			return current != nil && current.Transaction == id, err
		},
		Undoers: map[string]transaction.Undoer{
			undoFile:       decoded(restoreFile),
			undoFolderKind: decoded(removeEmptyFolder),
			undoRename:     decoded(renameBack),
			undoService:    decoded(func(ctx context.Context, u serviceUndo) error { return restoreService(ctx, host, u) }),
			undoServiceStart: decoded(func(ctx context.Context, u serviceUndo) error {
				_, err := StopService(ctx, host, u.Name, u.Folder, brokenStopTimeout)
				return err
			}),
			undoServiceStop: decoded(func(ctx context.Context, u serviceUndo) error {
				// A service that no longer starts must not keep the transaction open for ever: its definition and files are back, and
				// the next boot or apply starts it.
				for _, name := range append([]string{u.Name}, u.Dependants...) {
					_ = host.Services.Start(ctx, name)
				}
				return nil
			}),
			undoFirewall: decoded(func(_ context.Context, u firewallUndo) error {
				err := restoreRule(host.Firewall, u)
				if errors.Is(err, firewall.ErrAbsent) {
					return nil
				}
				return err
			}),
		},
	}
}

// restoreFile puts the backup back by a rename, so that it can be done again after a crash: no backup any more, nothing left to do.
func restoreFile(_ context.Context, u fileUndo) error {
	if u.Backup == "" {
		return securefile.Remove(u.Path)
	}
	if _, err := os.Stat(u.Backup); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(u.Path), 0o700); err != nil {
		return err
	}
	return securefile.Move(u.Backup, u.Path)
}

// backUp keeps a file's content aside, by a hard link where possible, and gives how to restore it.
func backUp(install, path string) (transaction.Undo, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return transaction.NewUndo(undoFile, fileUndo{Path: path}), nil
	}
	folder := undoFolder(install)
	if err := securefile.MakeFolder(folder); err != nil {
		return transaction.Undo{}, err
	}
	backup := filepath.Join(folder, newName(filepath.Base(path)))
	if err := os.Link(path, backup); err != nil {
		if err := copyFile(path, backup); err != nil {
			return transaction.Undo{}, err
		}
	}
	return transaction.NewUndo(undoFile, fileUndo{Path: path, Backup: backup}), nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err == nil {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}

// removeEmptyFolder leaves a folder in which somebody has put something meanwhile.
func removeEmptyFolder(_ context.Context, u folderUndo) error {
	entries, err := os.ReadDir(u.Path)
	if errors.Is(err, fs.ErrNotExist) || len(entries) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Remove(u.Path)
}

func renameBack(_ context.Context, u renameUndo) error {
	if _, err := os.Stat(u.To); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(u.From); err != nil { // what the failed run made there
		return err
	}
	return os.Rename(u.To, u.From)
}

func restoreRule(f firewall.Firewall, u firewallUndo) error {
	if u.Rule == nil {
		return f.Delete(u.Name)
	}
	return f.Put(*u.Rule)
}

// restoreService also stops what a boot in the middle of the transaction has started with the new definition.
func restoreService(ctx context.Context, host Host, u serviceUndo) error {
	have, err := host.Services.Config(u.Name)
	if err != nil {
		return err
	}
	if have != nil && (u.Config == nil || winservice.NeedsRestart(*have, *u.Config)) {
		if _, err := StopService(ctx, host, u.Name, u.Folder, StopTimeout); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, StopTimeout)
	defer cancel()
	if u.Config == nil {
		return host.Services.Delete(ctx, u.Name)
	}
	return putService(ctx, host.Services, u.Name, *u.Config)
}

func putService(ctx context.Context, services winservice.Services, name string, config winservice.Config) error {
	have, err := services.Config(name)
	if err != nil {
		return err
	}
	if have == nil {
		return services.Create(ctx, name, config)
	}
	return services.Update(name, config)
}
