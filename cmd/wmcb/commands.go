package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"wsu.windows/internal/nodereport"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/transfer"
	"wsu.windows/internal/version"
	"wsu.windows/internal/wmcb/apply"
	"wsu.windows/internal/wmcb/collect"
	"wsu.windows/internal/wmcb/enroll"
	"wsu.windows/internal/wmcb/initialize"
	"wsu.windows/internal/wmcb/preflight"
	"wsu.windows/internal/wmcb/receive"
	"wsu.windows/internal/wmcb/remove"
	"wsu.windows/internal/wmcb/rollback"
	"wsu.windows/internal/wmcb/status"
)

var commands = []command{
	{"preflight", "check whether this machine can become a node; changes nothing", preflightCommand},
	{"receive", "read a stream of files from the standard input into the content store", receiveCommand},
	{"enroll", "make the node's key, ask for its client certificate, and pick it up", enrollCommand},
	{"apply", "make the machine the node that a specification describes", applyCommand},
	{"status", "say what is installed, what runs and what drifted; changes nothing", statusCommand},
	{"rollback", "go back to the release before, once", rollbackCommand},
	{"remove", "undo what apply did, and nothing else", removeCommand},
	{"collect", "write a support archive without secrets", collectCommand},
	{"initialize-kubelet", "make a node out of a worker Ignition and a kubelet.exe alone", initializeCommand},
	{"version", "say which wmcb.exe this is", versionCommand},
}

func preflightCommand(set *flag.FlagSet) runner {
	file := set.String("f", "", "the request, - for the standard input; without it the machine alone is checked")
	return func(ctx context.Context, s streams) (any, error) {
		raw := []byte("{}")
		if *file != "" {
			var err error
			if raw, err = input(*file, s.in); err != nil {
				return nil, err
			}
		}
		request, err := nodespec.DecodePreflight(raw)
		if err != nil {
			return nil, err
		}
		report, err := preflight.Run(ctx, preflight.Options{Request: *request, Host: preflight.ThisHost()})
		return &report, err
	}
}

func receiveCommand(set *flag.FlagSet) runner {
	install := installFlag(set)
	plan := set.Bool("plan", false, "read a manifest and say what is missing; changes nothing")
	return func(ctx context.Context, s streams) (any, error) {
		report, err := receive.Run(ctx, receive.Options{Install: *install, Plan: *plan, Stdin: s.in, Progress: s.progress()})
		return &report, err
	}
}

func enrollCommand(set *flag.FlagSet) runner {
	file := specFlag(set)
	wait := set.Duration("wait", 0, "how long to wait for the certificate")
	return func(ctx context.Context, s streams) (any, error) {
		spec, err := readSpec(*file, s.in)
		if err != nil {
			return nil, err
		}
		report, err := enroll.Run(ctx, enroll.Options{Spec: spec, Wait: *wait, Progress: s.progress()})
		return &report, err
	}
}

func applyCommand(set *flag.FlagSet) runner {
	file := specFlag(set)
	dryRun := set.Bool("dry-run", false, "print the plan and change nothing")
	wait := set.Duration("wait", 2*time.Minute, "how long to wait for the node's certificate")
	return func(ctx context.Context, s streams) (any, error) {
		spec, err := readSpec(*file, s.in)
		if err != nil {
			return nil, err
		}
		report, err := apply.Run(ctx, apply.Options{
			Spec: spec, DryRun: *dryRun, Enroll: enroll.For(s.progress()), EnrollWait: *wait, Host: apply.ThisHost(), Progress: s.progress(),
		})
		return &report, err
	}
}

func statusCommand(set *flag.FlagSet) runner {
	install := installFlag(set)
	lines := set.Int("log-lines", 20, "how many lines of the kubelet's log to show")
	return func(ctx context.Context, _ streams) (any, error) {
		report, err := status.Run(ctx, status.Options{Install: *install, LogLines: *lines, Host: apply.ThisHost()})
		return &report, err
	}
}

func rollbackCommand(set *flag.FlagSet) runner {
	install := installFlag(set)
	dryRun := set.Bool("dry-run", false, "print the plan and change nothing")
	return func(ctx context.Context, s streams) (any, error) {
		report, err := rollback.Run(ctx, rollback.Options{Install: *install, DryRun: *dryRun, Host: apply.ThisHost(), Progress: s.progress()})
		return &report, err
	}
}

func removeCommand(set *flag.FlagSet) runner {
	paths := pathFlags(set)
	keepLogs := set.Bool("keep-logs", false, "leave the logs")
	dryRun := set.Bool("dry-run", false, "print the plan and change nothing")
	return func(ctx context.Context, s streams) (any, error) {
		report, err := remove.Run(ctx, remove.Options{Paths: *paths, KeepLogs: *keepLogs, DryRun: *dryRun, Host: apply.ThisHost(), Progress: s.progress()})
		return &report, err
	}
}

func collectCommand(set *flag.FlagSet) runner {
	paths := pathFlags(set)
	to := set.String("to", "", "the archive's file; - is the standard output, and then the document is the error output's last line")
	return func(ctx context.Context, s streams) (any, error) {
		if *to == "" {
			return nil, usageError{"--to is missing"}
		}
		into := s.out
		if *to != "-" {
			file, err := os.OpenFile(*to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, reason.Wrap(reason.AccessDenied, "--to "+*to, err, "Name a file that does not exist, in a folder that does.")
			}
			defer file.Close()
			into = file
		}
		report, err := collect.Run(ctx, collect.Options{Install: paths.Install, Logs: paths.Logs, To: into, Host: apply.ThisHost()})
		report.Path = *to
		return &report, err
	}
}

func initializeCommand(set *flag.FlagSet) runner {
	o := initialize.Options{}
	set.StringVar(&o.IgnitionFile, "ignition-file", "", "the worker Ignition")
	set.StringVar(&o.KubeletPath, "kubelet-path", "", "the kubelet.exe")
	set.StringVar(&o.LogRunnerPath, "log-runner-path", "", "the kube-log-runner.exe; default: the one beside the kubelet")
	set.StringVar(&o.NodeName, "node-name", "", "the Node's name; default: the machine's host name in lower case")
	set.StringVar(&o.NodeIP, "node-ip", "", "the Node's address; default: the one of the way to the API server")
	set.StringVar(&o.ServiceCIDR, "service-cidr", "", "the cluster's service network")
	set.StringVar(&o.ClusterDNS, "cluster-dns", "", "the address of the cluster's DNS service")
	set.DurationVar(&o.Wait, "wait", initialize.DefaultWait, "how long to wait for somebody to approve the node's certificate")
	paths := pathFlags(set)
	return func(ctx context.Context, s streams) (any, error) {
		if o.IgnitionFile == "" || o.KubeletPath == "" {
			return nil, usageError{"--ignition-file and --kubelet-path are both needed"}
		}
		o.Paths, o.Host, o.Enroll, o.Progress = *paths, apply.ThisHost(), enroll.For(s.progress()), s.progress()
		report, err := initialize.Run(ctx, o)
		return &report, err
	}
}

func versionCommand(*flag.FlagSet) runner {
	return func(context.Context, streams) (any, error) {
		report := &nodereport.Version{
			Header:         nodereport.Header{APIVersion: nodereport.APIVersion, Kind: "Version", WMCB: version.Release, OK: true},
			StreamVersions: []int{transfer.Version},
		}
		self, err := os.Executable()
		if err == nil {
			report.SHA256, err = securefile.Digest(self)
		}
		if err != nil {
			return nil, reason.Wrap(reason.Internal, "wmcb.exe", err, "")
		}
		return report, nil
	}
}

func installFlag(set *flag.FlagSet) *string {
	return set.String("install-dir", nodespec.DefaultInstall, "the install folder")
}

func pathFlags(set *flag.FlagSet) *nodespec.Paths {
	s := &nodespec.NodeSpec{}
	nodespec.Default(s)
	paths := &nodespec.Paths{}
	set.StringVar(&paths.Install, "install-dir", s.Paths.Install, "the install folder")
	set.StringVar(&paths.Logs, "log-dir", s.Paths.Logs, "the folder of the logs")
	set.StringVar(&paths.KubeletData, "kubelet-data-dir", s.Paths.KubeletData, "the kubelet's root directory")
	return paths
}

func specFlag(set *flag.FlagSet) *string {
	return set.String("f", "", "the NodeSpec, YAML or JSON; - is the standard input")
}

func readSpec(file string, stdin io.Reader) (*nodespec.NodeSpec, error) {
	raw, err := input(file, stdin)
	if err != nil {
		return nil, err
	}
	return nodespec.Decode(raw)
}

// input reads a small document.
func input(file string, stdin io.Reader) ([]byte, error) {
	if file == "" {
		return nil, usageError{"-f is missing: a file, or - for the standard input"}
	}
	from := stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, reason.Wrap(reason.FileMissing, "-f "+file, err, "")
		}
		defer opened.Close()
		from = opened
	}
	raw, err := io.ReadAll(io.LimitReader(from, nodespec.MaxSize+1))
	if err != nil {
		return nil, reason.Wrap(reason.SpecInvalid, "-f "+file, err, "")
	}
	if len(raw) > nodespec.MaxSize {
		return nil, reason.New(reason.SpecInvalid, "-f "+file, fmt.Sprintf("it has more than %d bytes", nodespec.MaxSize), "")
	}
	return raw, nil
}
