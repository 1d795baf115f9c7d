package winrm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"wsu.windows/internal/base64lines"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/transport"
)

const maxSaid = 4096

// PutFirst sends a compressed tar stream into Windows' own tar.exe.
func (c *connection) PutFirst(ctx context.Context, path string, content io.ReaderAt, size int64) (string, error) {
	drive, rest, found := strings.Cut(path, `\`)
	if !found {
		return "tar", reason.New(reason.ArgumentInvalid, path, "it is not an absolute Windows path", "")
	}
	reader, writer := io.Pipe()
	go func() {
		writer.CloseWithError(transport.WriteTar(writer, strings.ReplaceAll(rest, `\`, "/"), content, size))
	}()
	defer reader.Close()
	return "tar", c.put(ctx, path, "tar.exe", transport.TarLine(drive), reader)
}

// PutAgain brings the file as lines of base64 into PowerShell: for a WinRM that does not hand bytes through as they are.
func (c *connection) PutAgain(ctx context.Context, path string, content io.ReaderAt, size int64) (string, error) {
	reader, writer := io.Pipe()
	go func() {
		lines := base64lines.NewWriter(writer)
		_, err := io.Copy(lines, io.NewSectionReader(content, 0, size))
		if closeErr := lines.Close(); err == nil {
			err = closeErr
		}
		writer.CloseWithError(err)
	}()
	defer reader.Close()
	return "base64", c.put(ctx, path, "powershell.exe", "powershell.exe -NonInteractive -NoProfile -EncodedCommand "+encodedCommand(fmt.Sprintf(base64Script, path)), reader)
}

// base64Script reads lines of base64 and writes what they mean to a path, whose characters are checked by the caller.
const base64Script = `$ErrorActionPreference = 'Stop'; $ProgressPreference = 'SilentlyContinue'
$path = '%s'
[void][IO.Directory]::CreateDirectory([IO.Path]::GetDirectoryName($path))
$file = [IO.File]::Create($path)
try { while ($null -ne ($line = [Console]::In.ReadLine())) { $bytes = [Convert]::FromBase64String($line); $file.Write($bytes, 0, $bytes.Length) } } finally { $file.Dispose() }`

// encodedCommand is a script as powershell.exe takes it on its command line: UTF-16 in base64.
func encodedCommand(script string) string {
	var raw []byte
	for _, unit := range utf16.Encode([]rune(script)) {
		raw = binary.LittleEndian.AppendUint16(raw, unit)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func (c *connection) put(ctx context.Context, path, program, line string, stdin io.Reader) error {
	said := &limited{left: maxSaid}
	code, err := c.Run(ctx, transport.Command{Line: line, Stdin: stdin, Stderr: said})
	if err != nil {
		return err
	}
	if code != 0 {
		return reason.New(reason.AccessDenied, c.object()+": "+path, fmt.Sprintf("%s ended with code %d: %.300q", program, code, clean(said.String())),
			"Check the free space of the drive and the rights of the account.")
	}
	return nil
}

// removal spares a folder that is not empty, which del would empty; what counts is whether the path is still there.
const removal = `(if exist %[1]s rmdir %[1]s 2>nul) & (if not exist %[1]s\* del /f /q %[1]s 2>nul) & if exist %[1]s exit 5`

// Remove deletes a file or an empty folder; that it is absent is no error.
func (c *connection) Remove(ctx context.Context, path string) error {
	said := &limited{left: maxSaid}
	code, err := c.Run(ctx, transport.Command{Line: fmt.Sprintf(removal, path), Stderr: said})
	if err != nil {
		return err
	}
	if code != 0 {
		return reason.New(reason.AccessDenied, c.object()+": "+path, "it cannot be deleted: "+clean(said.String()), "")
	}
	return nil
}

// limited keeps the first bytes of what is written and takes the rest without keeping it.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.left)]
	l.left -= len(kept)
	l.Buffer.Write(kept)
	return len(p), nil
}
