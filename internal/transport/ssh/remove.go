package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/pkg/sftp"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// Remove deletes a file or an empty folder; that it is absent is no error.
func (c *connection) Remove(ctx context.Context, path string) error {
	stop := context.AfterFunc(ctx, func() { c.client.Close() })
	defer stop()
	files, err := c.sftp()
	if err != nil {
		return c.removeByCommand(ctx, path)
	}
	return c.removeBySFTP(ctx, files, path)
}

func (c *connection) removeBySFTP(ctx context.Context, files *sftp.Client, path string) error {
	target := sftpPath(path)
	info, err := files.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return c.putError(ctx, path, err)
	}
	if info.IsDir() {
		err = files.RemoveDirectory(target)
	} else {
		err = files.Remove(target)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c.putError(ctx, path, err)
	}
	return nil
}

// plainPath is what may stand in a command line for cmd.exe and PowerShell without quotes.
var plainPath = regexp.MustCompile(`^[A-Za-z]:\\[A-Za-z0-9\\._+-]*[A-Za-z0-9._+-]$`)

// removeByCommand asks cmd.exe, in words that say the same to PowerShell where that is the account's shell: no quotes, and one command a
// line, since & and || mean other things there. Neither del nor rmdir tells a failure by its exit code reliably, so what counts is whether
// the path is still there. A folder that is not empty holds *, and is spared: del would empty it.
func (c *connection) removeByCommand(ctx context.Context, path string) error {
	if !plainPath.MatchString(path) {
		return reason.New(reason.ArgumentInvalid, path, "it is not an absolute Windows path that can stand in a command line without quotes", "")
	}
	var said, out bytes.Buffer
	var code int
	for _, line := range []string{"if exist %s rmdir %s", `if not exist %s\* del /f /q %s`, "if exist %s exit 1"} {
		line = "cmd.exe /c " + strings.ReplaceAll(line, "%s", path)
		var err error
		code, err = c.Run(ctx, transport.Command{Line: line, Stdout: &limited{&out, 2048}, Stderr: &limited{&said, 2048}})
		if err != nil {
			return err
		}
	}
	if code != 0 {
		return reason.New(reason.AccessDenied, c.object()+": "+path, fmt.Sprintf("it cannot be deleted: %.300q", strings.TrimSpace(said.String()+out.String())),
			"Check the rights of the account, and whether a process holds the file.")
	}
	return nil
}
