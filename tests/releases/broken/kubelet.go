// Package broken is what the broken kubelets of the tests have in common with the real one: they take its flags, read its configuration, and
// run as its Windows service. What each of them does wrong is its own main function; none of them is part of a release.
package broken

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Version is what --version prints; the build sets it to the version of the kubelet that this one stands in for.
var Version = "v0.0.0"

// Kubelet is what the command line and the file of --config say, as far as it matters here.
type Kubelet struct {
	// WindowsService says that the service control manager has started it.
	WindowsService bool
	// Healthz is where the kubelet answers for its health; empty is nowhere.
	Healthz string
}

// Parse reads the flags. Those that mean nothing here are taken and ignored, as the real kubelet knows them all.
func Parse(arguments []string) (Kubelet, error) {
	flags := map[string]string{}
	for _, argument := range arguments {
		name, value, found := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if !strings.HasPrefix(argument, "--") {
			return Kubelet{}, fmt.Errorf("unknown command %q", argument)
		}
		if !found {
			value = "true"
		}
		flags[name] = value
	}
	kubelet := Kubelet{WindowsService: flags["windows-service"] == "true"}
	var err error
	kubelet.Healthz, err = healthz(flags["config"])
	return kubelet, err
}

// healthz reads a KubeletConfiguration, with the real kubelet's defaults.
func healthz(file string) (string, error) {
	config := struct {
		Kind    string `json:"kind"`
		Port    *int   `json:"healthzPort"`
		Address string `json:"healthzBindAddress"`
	}{Kind: "KubeletConfiguration", Address: "127.0.0.1"}
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("failed to load kubelet config file: %w", err)
		}
		if err := yaml.Unmarshal(raw, &config); err != nil {
			return "", fmt.Errorf("failed to load kubelet config file %s: %w", file, err)
		}
		if config.Kind != "KubeletConfiguration" {
			return "", fmt.Errorf("failed to load kubelet config file %s: no kind %q is registered", file, config.Kind)
		}
	}
	port := 10248
	if config.Port != nil {
		port = *config.Port
	}
	if port == 0 {
		return "", nil
	}
	return net.JoinHostPort(config.Address, strconv.Itoa(port)), nil
}

// Serve answers health checks with "ok" until it fails.
func (k Kubelet) Serve() error {
	if k.Healthz == "" {
		return nil
	}
	server := &http.Server{Addr: k.Healthz, Handler: health(), ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

func health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	return mux
}

// Log writes a line as the real kubelet does.
func Log(severity, format string, arguments ...any) {
	now := time.Now()
	fmt.Fprintf(os.Stderr, "%s%02d%02d %s %7d broken.go:1] %s\n", severity, now.Month(), now.Day(), now.Format("15:04:05.000000"), os.Getpid(),
		fmt.Sprintf(format, arguments...))
}

// Start does what all of them begin with, and ends the process where the real kubelet would.
func Start() Kubelet {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("Kubernetes", Version)
		os.Exit(0)
	}
	kubelet, err := Parse(os.Args[1:])
	if err != nil {
		Fail(err)
	}
	Log("I", "\"Kubelet version\" kubeletVersion=%q", Version)
	return kubelet
}

// Fail ends the process as the real kubelet does when it cannot run.
func Fail(err error) {
	Log("E", "\"command failed\" err=%q", err)
	os.Exit(1)
}
