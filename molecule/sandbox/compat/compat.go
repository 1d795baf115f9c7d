// Package compat builds the compatibility DLL: it is installed as system32\bcryptprimitives.dll in a Wine prefix, which every Go program
// loads at its start and Wine 8 lacks, and makes Wine answer as Windows does where Go programs, the kubelet and containerd notice.
// src/compat.h says how; each other file of src holds one subject.
package compat

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Name is the file name that the DLL has in system32.
const Name = "bcryptprimitives.dll"

//go:embed src/*.c src/*.h
var sources embed.FS

// Build compiles the DLL with mingw to the path out. It is left alone if it was built from the same sources.
func Build(ctx context.Context, out string) error {
	dir, err := os.MkdirTemp("", "compat")
	if err != nil {
		return fmt.Errorf("compatibility dll: %w", err)
	}
	defer os.RemoveAll(dir)
	files, err := unpack(dir)
	if err != nil {
		return fmt.Errorf("compatibility dll: %w", err)
	}
	// Without a timestamp and a build path, equal sources give an equal DLL.
	args := append([]string{"-O1", "-Wall", "-Werror", "-Wno-cast-function-type", "-std=gnu11", "-shared", "-s",
		"-Wl,--no-insert-timestamp", "-o", out}, files...)
	cmd := exec.CommandContext(ctx, "x86_64-w64-mingw32-gcc", append(args, "-lntdll", "-ladvapi32", "-lws2_32")...)
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compatibility dll: x86_64-w64-mingw32-gcc: %w: install the package gcc-mingw-w64-x86-64\n%s", err, said)
	}
	return nil
}

func unpack(dir string) ([]string, error) {
	entries, err := sources.ReadDir("src")
	if err != nil {
		return nil, err
	}
	var compiled []string
	for _, entry := range entries {
		content, err := sources.ReadFile("src/" + entry.Name())
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, entry.Name()), content, 0o600); err != nil {
			return nil, err
		}
		if filepath.Ext(entry.Name()) == ".c" {
			compiled = append(compiled, entry.Name())
		}
	}
	return compiled, nil
}
