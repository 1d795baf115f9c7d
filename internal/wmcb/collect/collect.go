// Package collect makes a support archive of a machine: logs, configuration without secrets, services, versions, network. What cannot be
// had is named in the archive and is no failure.
package collect

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/version"
	"wsu.windows/internal/winsystem"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/status"
)

const (
	// tail is what is kept of the end of each log, allTails of all of them, in bytes.
	tail     = 4 << 20
	allTails = 64 << 20
	// toolWithin bounds a program of Windows that is asked.
	toolWithin = 30 * time.Second
)

// services are those that matter to a node, ours or not.
var services = []string{"kubelet", "containerd", "docker", "kube-proxy", "hybrid-overlay-node", "hns", "vmcompute", "sshd", "windows_exporter"}

// Options of one run.
type Options struct {
	// Install and Logs are folders; empty: the defaults.
	Install, Logs string
	// To gets the archive, a zip.
	To   io.Writer
	Host apply.Host
}

// Run writes the archive.
func Run(ctx context.Context, options Options) (nodereport.Collect, error) {
	report := nodereport.Collect{Header: nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Collect", WMCB: version.Release}, Files: []string{}}
	s := &nodespec.NodeSpec{Paths: nodespec.Paths{Install: options.Install, Logs: options.Logs}}
	nodespec.Default(s)
	sum := sha256.New()
	counted := &counter{w: io.MultiWriter(options.To, sum)}
	c := &collection{Options: options, paths: s.Paths, zip: zip.NewWriter(counted), report: &report, left: allTails}
	c.everything(ctx)
	err := errors.Join(c.err, c.zip.Close())
	report.Size, report.SHA256 = counted.n, hex.EncodeToString(sum.Sum(nil))
	if err != nil {
		err = reason.Wrap(reason.Internal, "support archive", err, "")
		report.Error = reason.Of(err)
	}
	report.OK = err == nil
	return report, err
}

// collection is one archive. err is the archive's own failure; problems are what could not be had.
type collection struct {
	Options
	paths    nodespec.Paths
	zip      *zip.Writer
	report   *nodereport.Collect
	left     int64
	problems []string
	err      error
}

func (c *collection) everything(ctx context.Context) {
	c.status(ctx)
	c.system()
	c.services()
	c.network()
	for _, name := range []string{"state.json", "journal.json", "kubelet-ca.crt"} {
		c.file(filepath.Join(c.paths.Install, name), "install/"+name)
	}
	c.releases()
	c.logs(c.paths.Logs, "logs")
	c.logs(`C:\var\log\containerd`, "containerd")
	c.listing()
	c.tool(ctx, "events/system.txt", "wevtutil.exe", "qe", "System", "/c:300", "/rd:true", "/f:text")
	c.tool(ctx, "events/application.txt", "wevtutil.exe", "qe", "Application", "/c:300", "/rd:true", "/f:text")
	c.text("problems.txt", []byte(strings.Join(c.problems, "\n")+"\n"))
}

func (c *collection) problem(format string, values ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, values...))
}

// text adds a file, without secrets.
func (c *collection) text(name string, content []byte) {
	if c.err != nil {
		return
	}
	w, err := c.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Now()})
	if err == nil {
		_, err = w.Write(redact(content))
	}
	c.err = err
	c.report.Files = append(c.report.Files, name)
}

func (c *collection) json(name string, value any) {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		c.problem("%s: %v", name, err)
		return
	}
	c.text(name, raw)
}

func (c *collection) status(ctx context.Context) {
	report, err := status.Run(ctx, status.Options{Install: c.paths.Install, Host: c.Host})
	if err != nil {
		c.problem("status: %v", err)
	}
	c.json("status.json", report)
}

func (c *collection) system() {
	info, err := winsystem.Read()
	if err != nil {
		c.problem("system: %v", err)
		return
	}
	free, err := winsystem.FreeBytes(c.paths.Install)
	if err != nil {
		c.problem("free space: %v", err)
	}
	c.json("system.json", map[string]any{"system": info, "free_bytes": free, "time": time.Now().UTC().Format(time.RFC3339), "wmcb": version.Release})
}

func (c *collection) services() {
	list := map[string]any{}
	for _, name := range services {
		config, err := c.Host.Services.Config(name)
		if err != nil {
			c.problem("service %s: %v", name, err)
			continue
		}
		if config == nil {
			continue
		}
		config.Environment = names(config.Environment) // proxies' passwords stand there
		state, err := c.Host.Services.Status(name)
		if err != nil {
			c.problem("service %s: %v", name, err)
		}
		list[name] = map[string]any{"config": config, "status": state}
	}
	c.json("services.json", list)
}

func names(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		kept = append(kept, name+"=...")
	}
	return kept
}

func (c *collection) network() {
	interfaces, err := winsystem.Interfaces()
	if err != nil {
		c.problem("network: %v", err)
		return
	}
	c.json("network.json", interfaces)
}

// file adds the end of a text file.
func (c *collection) file(path, name string) {
	content, err := end(path, min(tail, c.left))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.problem("%s: %v", path, err)
		return
	}
	c.left -= int64(len(content))
	c.text(name, content)
}

func end(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if skipped := info.Size() - most; skipped > 0 {
		if _, err := file.Seek(skipped, io.SeekStart); err != nil {
			return nil, err
		}
	}
	var content bytes.Buffer
	_, err = io.CopyN(&content, file, most)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return content.Bytes(), err
}

// releases adds the configuration of each release; programs are not text.
func (c *collection) releases() {
	folder := filepath.Join(c.paths.Install, "releases")
	for _, path := range files(folder) {
		if slices.Contains([]string{".conf", ".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
			c.file(path, "releases/"+relative(folder, path))
		}
	}
}

func (c *collection) logs(folder, into string) {
	for _, path := range files(folder) {
		c.file(path, into+"/"+relative(folder, path))
	}
}

// files are the regular files under a folder, those that were changed last first: they matter most where not all of them fit.
func files(folder string) []string {
	type found struct {
		path    string
		changed time.Time
	}
	var list []found
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "pods" || entry.Name() == "containers") {
			return fs.SkipDir // the kubelet keeps the workloads' logs there: those are the customer's
		}
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be listed is not there
		}
		if info, err := entry.Info(); err == nil {
			list = append(list, found{path, info.ModTime()})
		}
		return nil
	})
	slices.SortFunc(list, func(a, b found) int { return b.changed.Compare(a.changed) })
	paths := make([]string, len(list))
	for i := range list {
		paths[i] = list[i].path
	}
	return paths
}

func relative(folder, path string) string {
	rest, err := filepath.Rel(folder, path)
	if err != nil {
		return filepath.Base(path)
	}
	return filepath.ToSlash(rest)
}

// listing names what lies in the install folder, with sizes and without contents.
func (c *collection) listing() {
	var text strings.Builder
	for _, path := range files(c.paths.Install) {
		if info, err := os.Lstat(path); err == nil {
			fmt.Fprintf(&text, "%s\t%d\t%s\n", info.ModTime().UTC().Format(time.RFC3339), info.Size(), path)
		}
	}
	c.text("install/listing.txt", []byte(text.String()))
}

// tool adds what a program of Windows prints.
func (c *collection) tool(ctx context.Context, name, program string, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, toolWithin)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, args...).Output() //nolint:gosec // constant
	if err != nil {
		c.problem("%s %s: %v", program, strings.Join(args, " "), err)
		return
	}
	c.text(name, output[:min(len(output), tail)])
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
