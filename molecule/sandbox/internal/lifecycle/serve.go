package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"wsu.windows/sandbox/internal/config"
	"wsu.windows/sandbox/internal/mcs"
	"wsu.windows/sandbox/internal/mirror"
)

// Names of the servers' certificates in the folder pki.
const (
	mcsCertificate    = "machine-config-server"
	mirrorCertificate = "mirror"
)

// payloadDir is where the project's Makefile puts the release's files.
func (s *Sandbox) payloadDir() string { return filepath.Join(s.Config.Repository, "build", "payload") }

// releasesDir is where it puts whole releases, each in a folder.
func (s *Sandbox) releasesDir() string { return filepath.Join(s.Config.Repository, "build", "release") }

// Serve is the Machine Config Server and the payload mirror; it returns when the context ends.
func (s *Sandbox) Serve(ctx context.Context) error {
	settings, err := clientcmd.BuildConfigFromFlags("", s.Config.Path("kubeconfig"))
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	settings.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(settings)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	ended := make(chan error, 2)
	for certificate, server := range map[string]*http.Server{
		mcsCertificate:    mcs.NewServer(s.address(config.MachineConfigPort), mcs.Cluster{Client: client}),
		mirrorCertificate: mirror.NewServer(s.address(config.MirrorPort), s.Config.Path("mirror")),
	} {
		go func() {
			err := server.ListenAndServeTLS(s.Config.Path("pki", certificate+".crt"), s.Config.Path("pki", certificate+".key"))
			ended <- fmt.Errorf("%s: %w", certificate, err)
		}()
		defer shutdown(ctx, server)
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

func shutdown(ctx context.Context, server *http.Server) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(limited); errors.Is(err, context.DeadlineExceeded) {
		_ = server.Close()
	}
}

func (s *Sandbox) address(port int) string {
	return netip.AddrPortFrom(s.Config.Gateway(), uint16(port)).String()
}
