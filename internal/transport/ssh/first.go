package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/pkg/sftp"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

// sftp opens the file subsystem once, if the host has one.
func (c *connection) sftp() (*sftp.Client, error) {
	c.filesOnce.Do(func() {
		c.files, c.noFiles = sftp.NewClient(c.client, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(128))
	})
	return c.files, c.noFiles
}

// shortLine is the round trip up to which SFTP is faster than to start tar.exe: it takes more round trips, and nothing is compressed.
const shortLine = 3 * time.Millisecond

// PutFirst brings one file as a compressed tar stream into Windows' own tar.exe, or over SFTP where the line is short or there is no tar.exe.
func (c *connection) PutFirst(ctx context.Context, path string, content io.ReaderAt, size int64) (string, error) {
	if roundTrip, _ := c.RoundTrip(ctx); roundTrip < shortLine {
		if way, err := c.PutAgain(ctx, path, content, size); c.noFiles == nil {
			return way, err
		}
	}
	err := c.untar(ctx, path, content, size)
	var failed *tarError
	if !errors.As(err, &failed) {
		return "tar", err
	}
	if way, err := c.PutAgain(ctx, path, content, size); c.noFiles == nil {
		return way, err
	}
	return "tar", failed.reason(c.object() + ": " + path)
}

// PutAgain brings it over SFTP.
func (c *connection) PutAgain(ctx context.Context, path string, content io.ReaderAt, size int64) (string, error) {
	stop := context.AfterFunc(ctx, func() { c.client.Close() })
	defer stop()
	files, err := c.sftp()
	if err != nil {
		return "sftp", c.lost(ctx, err)
	}
	if err := c.put(files, path, content, size); err != nil {
		return "sftp", c.putError(ctx, path, err)
	}
	return "sftp", nil
}

// put writes beside the path and renames: concurrent writes leave holes when they break off.
func (c *connection) put(files *sftp.Client, path string, content io.ReaderAt, size int64) error {
	target := sftpPath(path)
	if err := files.MkdirAll(target[:strings.LastIndexByte(target, '/')]); err != nil {
		return err
	}
	temporary := target + ".new"
	file, err := files.Create(temporary)
	if err != nil {
		return err
	}
	from := &sized{source: source{Reader: io.NewSectionReader(content, 0, size)}, size: size}
	_, err = file.ReadFrom(from)
	err = errors.Join(err, file.Close())
	if from.err != nil {
		err = unreadable{from.err}
	}
	if err == nil {
		if err = files.PosixRename(temporary, target); err != nil {
			_ = files.Remove(target)
			err = files.Rename(temporary, target)
		}
	}
	if err != nil {
		_ = files.Remove(temporary)
	}
	return err
}

// sized tells the SFTP library how much is to come, without which it would write piece by piece.
type sized struct {
	source
	size int64
}

func (s *sized) Size() int64 { return s.size }

// unreadable is an error of this side.
type unreadable struct{ err error }

func (u unreadable) Error() string { return "what is to be sent cannot be read: " + u.err.Error() }
func (u unreadable) Unwrap() error { return u.err }

// sftpPath is how Windows' OpenSSH names C:\k\file.
func sftpPath(path string) string { return "/" + strings.ReplaceAll(path, `\`, "/") }

func (c *connection) putError(ctx context.Context, path string, err error) error {
	var status *sftp.StatusError
	var ours unreadable
	object := fmt.Sprintf("%s: %s", c.object(), path)
	switch {
	case errors.As(err, &ours) && ctx.Err() == nil:
		return fmt.Errorf("%s: %w", object, err)
	case ctx.Err() != nil, isClosed(err), errors.Is(err, sftp.ErrSSHFxConnectionLost):
		return c.lost(ctx, err)
	case errors.Is(err, fs.ErrPermission):
		return reason.Wrap(reason.AccessDenied, object, err, "")
	case errors.As(err, &status) && strings.Contains(strings.ToLower(err.Error()), "failure"):
		return reason.New(reason.DiskFull, object, "the host could not write it (SFTP tells no more than \"failure\")",
			"Free space on the drive, and check the rights of the account.")
	}
	return reason.Wrap(reason.AccessDenied, object, err, "")
}

// untar needs no folder beforehand: the stream's name carries it.
func (c *connection) untar(ctx context.Context, path string, content io.ReaderAt, size int64) error {
	drive, rest, found := strings.Cut(path, `\`)
	if !found {
		return reason.New(reason.ArgumentInvalid, path, "it is not an absolute Windows path", "")
	}
	reader, writer := io.Pipe()
	go func() {
		writer.CloseWithError(transport.WriteTar(writer, strings.ReplaceAll(rest, `\`, "/"), content, size))
	}()
	defer reader.Close()
	var said bytes.Buffer
	code, err := c.Run(ctx, transport.Command{Line: transport.TarLine(drive), Stdin: reader, Stderr: &limited{&said, 4096}})
	if err == nil && code != 0 {
		err = &tarError{code, said.String()}
	}
	return err
}

// tarError is what tar.exe, or a shell that has none, says.
type tarError struct {
	code int
	said string
}

func (t *tarError) Error() string {
	return fmt.Sprintf("tar.exe ended with code %d: %.300q", t.code, t.said)
}

func (t *tarError) reason(object string) error {
	return reason.New(reason.AccessDenied, object, t.Error(), "Check the free space of the drive and the rights of the account, or enable SFTP in the host's SSH server.")
}

// limited keeps the first bytes of what is written and takes the rest without keeping it.
type limited struct {
	buffer *bytes.Buffer
	left   int
}

func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.left)]
	l.left -= len(kept)
	l.buffer.Write(kept)
	return len(p), nil
}
