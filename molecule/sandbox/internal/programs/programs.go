// Package programs builds the upstream programs that the sandbox runs, out of the modules pinned under payload/, and says which
// Debian packages it needs.
package programs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/progress"
)

// Program is one upstream program and how it is built. The flags are the same as the release's own, so that Go's build cache
// serves both.
type Program struct {
	Name    string // file name in the folder of programs
	Module  string // folder under payload/ whose go.mod pins it
	Package string
	GOOS    string
	Version bool // stamped with Kubernetes' version
}

// kubernetes is pinned by a module of its own for each version.
const kubernetes = "kubernetes/" + config.Version

// ControlPlane are the programs of the control plane, and kubectl for people.
var ControlPlane = []Program{
	{Name: "etcd", Module: kubernetes, Package: "go.etcd.io/etcd/server/v3", GOOS: "linux"},
	{Name: "kube-apiserver", Module: kubernetes, Package: "k8s.io/kubernetes/cmd/kube-apiserver", GOOS: "linux", Version: true},
	{Name: "kube-controller-manager", Module: kubernetes, Package: "k8s.io/kubernetes/cmd/kube-controller-manager", GOOS: "linux", Version: true},
	{Name: "kubectl", Module: kubernetes, Package: "k8s.io/kubernetes/cmd/kubectl", GOOS: "linux", Version: true},
}

// WindowsHost are the programs that a Windows host has before anybody joins it.
var WindowsHost = []Program{
	{Name: "containerd.exe", Module: "containerd", Package: "github.com/containerd/containerd/v2/cmd/containerd", GOOS: "windows"},
}

// Build brings the programs in bin up to date. What was built from the same pins, flags and Go is left alone.
func Build(ctx context.Context, repository, bin string, list []Program, log *progress.Log) error {
	if err := os.MkdirAll(filepath.Join(bin, ".stamps"), 0o755); err != nil {
		return fmt.Errorf("folder of programs: %w", err)
	}
	for _, program := range list {
		if err := program.build(ctx, repository, bin, log); err != nil {
			return err
		}
	}
	return nil
}

func (p Program) build(ctx context.Context, repository, bin string, log *progress.Log) error {
	module := filepath.Join(repository, "payload", p.Module)
	want, err := p.stamp(ctx, module)
	if err != nil {
		return fmt.Errorf("program %s: %w", p.Name, err)
	}
	output, stampFile := filepath.Join(bin, p.Name), filepath.Join(bin, ".stamps", p.Name)
	have, _ := os.ReadFile(stampFile)
	if _, err := os.Stat(output); err == nil && string(have) == want {
		log.Say("%-44s up to date", p.Name)
		return nil
	}
	log.Say("%s is built from %s (minutes when Go's cache is cold)", p.Name, p.Package)
	return log.Step(p.Name, func() error {
		// A fresh file, not the old one's inode: the old one may run, or be shared by a link.
		temporary := output + ".new"
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", p.ldflags(), "-o", temporary, p.Package)
		command.Dir = module
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.GOOS, "GOARCH=amd64")
		if text, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("program %s: go build in %s: %w\n%s", p.Name, module, err, strings.TrimSpace(string(text)))
		}
		if err := os.Rename(temporary, output); err != nil {
			return fmt.Errorf("program %s: %w", p.Name, err)
		}
		return os.WriteFile(stampFile, []byte(want), 0o644)
	})
}

func (p Program) ldflags() string {
	if p.Version {
		return "-s -w -X k8s.io/component-base/version.gitVersion=" + config.Version
	}
	return "-s -w"
}

// stamp is a digest of everything that the program is made of.
func (p Program) stamp(ctx context.Context, module string) (string, error) {
	digest := sha256.New()
	for _, file := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			return "", err
		}
		digest.Write(content)
	}
	command := exec.CommandContext(ctx, "go", "version")
	command.Dir = module
	compiler, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go version: %w", err)
	}
	fmt.Fprint(digest, string(compiler), p.ldflags(), p.Package, p.GOOS)
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// ModuleDir is where Go keeps the source of a module that the sandbox's own go.mod requires.
func ModuleDir(ctx context.Context, repository, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	command.Dir = filepath.Join(repository, "molecule", "sandbox")
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("module %s: go mod download: %w\n%s", module, err, strings.TrimSpace(string(output)))
	}
	_, after, _ := strings.Cut(string(output), `"Dir": "`)
	dir, _, found := strings.Cut(after, `"`)
	if !found {
		return "", fmt.Errorf("module %s: go mod download named no folder", module)
	}
	return dir, nil
}
