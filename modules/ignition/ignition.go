// Package ignitionmodule is the module ignition: it gets the worker Ignition, checks it, and keeps it in a folder that only its
// owner reads, for the time of one run.
package ignitionmodule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/cluster"
	"wsu.windows/internal/cluster/openshift"
	"wsu.windows/internal/ignition"
	"wsu.windows/internal/kubeconfig"
	"wsu.windows/internal/reason"
)

// Module is the module.
var Module = ansible.New("ignition", Run)

// Args are the module's arguments.
type Args struct {
	Kubeconfig string `json:"kubeconfig" path:"true"`
	Source     string `json:"source" default:"auto" choices:"auto,api,server,file"`
	File       string `json:"file" path:"true"`
	Pool       string `json:"pool" default:"worker"`
	// APIServer is the URL that an Ignition of this cluster names; empty is not compared.
	APIServer string `json:"api_server"`
	CacheDir  string `json:"cache_dir" default:"~/.cache/wsu" path:"true"`
	State     string `json:"state" default:"present" choices:"present,absent"`
	SHA256    string `json:"sha256"`
}

// Result is what the module returns. It holds nothing of the Ignition that is a secret.
type Result struct {
	Path          string            `json:"path"`
	SHA256        string            `json:"sha256"`
	Size          int64             `json:"size"`
	SpecVersion   string            `json:"spec_version"`
	Source        string            `json:"source"`
	SourceWhy     string            `json:"source_why"`
	MachineConfig string            `json:"machine_config"`
	KubeletFlags  map[string]string `json:"kubelet_flags"`
	APIServer     string            `json:"api_server"`
	// APICA is the API server's authority, PEM.
	APICA           string `json:"api_ca"`
	APICASHA256     string `json:"api_ca_sha256"`
	KubeletCASHA256 string `json:"kubelet_ca_sha256"`
	CloudProvider   string `json:"cloud_provider"`
	BootstrapUser   string `json:"bootstrap_user"`
}

// Validate checks what the struct's tags cannot say.
func (a *Args) Validate() error {
	if a.Source == "file" && a.File == "" && a.State == "present" {
		return reason.New(reason.ArgumentInvalid, "argument file", "it is missing, and source is file", "Give the path of the worker Ignition (wsu_ignition_file).")
	}
	if a.SHA256 != "" && (len(a.SHA256) != 64 || strings.Trim(a.SHA256, "0123456789abcdef") != "") {
		return reason.New(reason.ArgumentInvalid, "argument sha256", "it is not 64 lower-case hexadecimal digits", "Give the sha256 that this module returned.")
	}
	return nil
}

// Run gets or removes the Ignition. The file is a cache, so that check mode gets it too and nothing counts as changed.
func Run(ctx context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	folder := filepath.Join(args.CacheDir, "ignition")
	if args.State == "absent" {
		return remove(folder, args.SHA256)
	}
	fetched, source, why, err := get(ctx, env, args)
	if err != nil {
		return ansible.Result{}, err
	}
	env.Secret(fetched.Token)
	worker, err := ignition.Parse(fetched.Raw)
	if err != nil {
		return ansible.Result{}, blame(err, why)
	}
	if args.APIServer != "" && !strings.EqualFold(strings.TrimSuffix(worker.APIServer, "/"), strings.TrimSuffix(args.APIServer, "/")) {
		return ansible.Result{}, reason.New(reason.IgnitionInvalid, "worker Ignition from "+why,
			fmt.Sprintf("it is another cluster's: its API server is %s, and this cluster's is %s", worker.APIServer, args.APIServer), "")
	}
	if bootstrap, err := kubeconfig.Parse(worker.BootstrapKubeconfig, ""); err == nil {
		env.Secret(bootstrap.Token)
	}
	path, err := keep(folder, worker.SHA256, fetched.Raw)
	if err != nil {
		return ansible.Result{}, err
	}
	result := Result{
		Path: path, SHA256: worker.SHA256, Size: int64(len(fetched.Raw)), SpecVersion: worker.SpecVersion, Source: source, SourceWhy: why,
		MachineConfig: fetched.MachineConfig, KubeletFlags: worker.KubeletFlags, APIServer: worker.APIServer, APICA: string(worker.APIServerCA), APICASHA256: worker.CASHA256,
		KubeletCASHA256: worker.KubeletCASHA256, CloudProvider: worker.KubeletFlags["cloud-provider"], BootstrapUser: openshift.BootstrapUser,
	}
	return ansible.Result{Msg: fmt.Sprintf("worker Ignition %s (spec %s) from %s", worker.SHA256[:12], worker.SpecVersion, why), Data: result}, nil
}

// blame says where an Ignition came from that is wrong.
func blame(err error, why string) error {
	e := *reason.Of(err)
	e.Object = strings.TrimSuffix("worker Ignition from "+why+", "+e.Object, ", ")
	e.Err = err
	return &e
}

// get takes the wanted source, or with auto the first that has it, and says why that one.
func get(ctx context.Context, env *ansible.Env, args *Args) (fetched *openshift.Ignition, source, why string, err error) {
	if args.Source == "file" || (args.Source == "auto" && args.File != "") {
		raw, err := readFile(args.File)
		return &openshift.Ignition{Raw: raw}, "file", "the file " + args.File, err
	}
	client, err := cluster.Connect(args.Kubeconfig)
	if err != nil {
		return nil, "", "", err
	}
	if args.Source != "server" {
		fetched, err = openshift.FromAPI(ctx, client, args.Pool)
		if err == nil || args.Source == "api" || !mayAskServer(err) {
			return fetched, "api", "the API server", err
		}
	}
	why = "the Machine Config Server"
	apiErr := err
	if apiErr != nil {
		why += ", because the API server did not give it: " + reason.Of(apiErr).Object + ": " + reason.Of(apiErr).Problem
		env.Progress.Say("ignition", why)
	}
	fetched, err = openshift.FromServer(ctx, client, args.Pool)
	if err != nil && apiErr != nil {
		api, server := reason.Of(apiErr), reason.Of(err)
		return nil, "", "", reason.New(reason.IgnitionUnavailable, "worker Ignition of pool "+args.Pool,
			fmt.Sprintf("neither way led to it: through the API: %s: %s; from the Machine Config Server: %s: %s", api.Object, api.Problem, server.Object, server.Problem),
			api.Remedy+" Or give wsu_ignition_file.")
	}
	return fetched, "server", why, err
}

// mayAskServer is true where the other way may lead on: rights or objects are missing. An unreachable or untrusted API server
// is a reason to stop, and so is an Ignition that is there and wrong.
func mayAskServer(err error) bool {
	return reason.Is(err, reason.APIForbidden) || reason.Is(err, reason.IgnitionUnavailable)
}

func readFile(path string) ([]byte, error) {
	object := "Ignition file " + path
	file, err := os.Open(path)
	if err != nil {
		return nil, reason.Wrap(reason.IgnitionUnavailable, object, errors.Unwrap(err), "Correct wsu_ignition_file.")
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, ignition.MaxSize+1))
	if err != nil {
		return nil, reason.Wrap(reason.IgnitionUnavailable, object, errors.Unwrap(err), "Correct wsu_ignition_file.")
	}
	if len(raw) > ignition.MaxSize {
		return nil, reason.New(reason.IgnitionInvalid, object, fmt.Sprintf("it is larger than %d bytes", ignition.MaxSize), "")
	}
	return raw, nil
}

// keep writes the Ignition readable by its owner alone, whole or not at all.
func keep(folder, digest string, raw []byte) (string, error) {
	object := "folder " + folder
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", reason.Wrap(reason.AccessDenied, object, err, "Set wsu_cache_dir to a folder that you can write to.")
	}
	// MkdirAll leaves a folder as it is that somebody made before, with whatever rights.
	if err := os.Chmod(folder, 0o700); err != nil { //nolint:gosec // a folder needs its x
		return "", reason.Wrap(reason.AccessDenied, object, err, "Set wsu_cache_dir to a folder of your own.")
	}
	path := filepath.Join(folder, digest+".ign")
	temporary, err := os.CreateTemp(folder, ".ign-*") // 0600
	if err != nil {
		return "", reason.Wrap(reason.AccessDenied, object, err, "Set wsu_cache_dir to a folder that you can write to.")
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(raw)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return "", reason.Wrap(reason.DiskFull, object, err, "Free some space, or set wsu_cache_dir.")
	}
	return path, nil
}

// remove deletes one Ignition, or all, and what an interrupted run left.
func remove(folder, digest string) (ansible.Result, error) {
	patterns := []string{"*.ign", ".ign-*"}
	if digest != "" {
		patterns = []string{digest + ".ign"}
	}
	removed := 0
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return ansible.Result{}, err
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return ansible.Result{}, reason.Wrap(reason.AccessDenied, "file "+file, err, "Remove it yourself: it holds the bootstrap token.")
			}
			removed++
		}
	}
	return ansible.Result{Msg: fmt.Sprintf("%d Ignition files removed from %s", removed, folder)}, nil
}
