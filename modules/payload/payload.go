// Package payload is the module payload: the release's files in the control host's cache, verified.
package payload

import (
	"context"
	"fmt"
	"slices"

	"wsu.windows/internal/ansible"
	"wsu.windows/internal/payload"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/release"
)

// Module is the module.
var Module = ansible.New("payload", Run)

// Args are the module's arguments.
type Args struct {
	ReleaseFile string `json:"release_file" path:"true" required:"true"`
	URL         string `json:"url"`
	CAFile      string `json:"ca_file" path:"true"`
	CacheDir    string `json:"cache_dir" default:"~/.cache/wsu" path:"true"`
	// KubernetesVersion is the API server's; empty is not checked.
	KubernetesVersion string   `json:"kubernetes_version"`
	Names             []string `json:"names"`
}

// File is a verified file in the cache.
type File struct {
	Name      string `json:"name"`
	Component string `json:"component"`
	Version   string `json:"version"`
	Path      string `json:"path"`
	SHA256    string `json:"sha256"`
	Size      int64  `json:"size"`
}

// WMCB is wmcb.exe.
type WMCB struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Result is what the module returns.
type Result struct {
	Release         string `json:"release"`
	Kubernetes      string `json:"kubernetes"`
	Files           []File `json:"files"`
	WMCB            *WMCB  `json:"wmcb,omitempty"`
	DownloadedBytes int64  `json:"downloaded_bytes"`
}

// Run has the files. It fills the cache in check mode too: a cache is no state, and nothing could be checked without it.
func Run(ctx context.Context, env *ansible.Env, args *Args) (ansible.Result, error) {
	r, err := release.Read(args.ReleaseFile)
	if err != nil {
		return ansible.Result{}, err
	}
	if err := r.CheckSkew(args.KubernetesVersion); err != nil {
		return ansible.Result{}, err
	}
	wanted, err := choose(r, args.Names)
	if err != nil {
		return ansible.Result{}, err
	}
	cache, err := payload.New(args.CacheDir, args.URL, args.CAFile, env.Progress)
	if err != nil {
		return ansible.Result{}, err
	}
	paths, fetched, err := cache.Have(ctx, wanted)
	result := Result{Release: r.Release, Kubernetes: r.Kubernetes, Files: []File{}, DownloadedBytes: fetched}
	if err != nil {
		return ansible.Result{Data: result}, err
	}
	for i, f := range wanted {
		result.Files = append(result.Files, File{f.Name, f.Component, f.Version, paths[i], f.SHA256, f.Size})
		if f.Component == "wmcb" {
			result.WMCB = &WMCB{paths[i], f.SHA256, f.Size}
		}
	}
	msg := fmt.Sprintf("%d files of release %s are in the cache", len(wanted), r.Release)
	if fetched > 0 {
		msg += fmt.Sprintf("; %.1f MB were fetched", float64(fetched)/1e6)
	}
	return ansible.Result{Msg: msg, Data: result}, nil
}

func choose(r *release.Release, names []string) ([]release.File, error) {
	if len(names) == 0 {
		return r.Files, nil
	}
	var files []release.File
	for _, name := range names {
		i := slices.IndexFunc(r.Files, func(f release.File) bool { return f.Name == name })
		if i < 0 {
			return nil, reason.New(reason.ReleaseInvalid, name, fmt.Sprintf("release %s has no such file", r.Release), "")
		}
		files = append(files, r.Files[i])
	}
	return files, nil
}
