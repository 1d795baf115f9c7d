package apply

import (
	"os"
	"path/filepath"

	"wsu.windows/internal/ignition"
	"wsu.windows/internal/kubeletconfig"
	"wsu.windows/internal/nodespec"
	"wsu.windows/internal/reason"
	"wsu.windows/internal/securefile"
	"wsu.windows/internal/winservice"
	"wsu.windows/internal/wmcb/state"
)

// contents is what a specification and its Ignition become.
type contents struct {
	// bootstrap and kubeletCA outlive releases; nil where the Ignition is not there.
	bootstrap, kubeletCA []byte
	// files are those that are written into the release folder.
	files         []file
	kubeletConfig []byte
	service       winservice.Config
}

func (b *builder) contents() (*contents, error) {
	if b.made != nil {
		return b.made, nil
	}
	if b.restoring && b.worker == nil {
		return nil, reason.New(reason.FileMissing, "release "+b.spec.Release, "what it had made of its Ignition is not on this machine any more, and neither is the Ignition",
			"Run the playbook of that release instead.")
	}
	return b.render()
}

// render makes everything anew.
func (b *builder) render() (*contents, error) {
	worker := b.worker
	if worker == nil {
		worker = &ignition.Worker{}
	}
	c := &contents{bootstrap: worker.BootstrapKubeconfig, kubeletCA: worker.KubeletCA}
	cloudConfig := ""
	if len(worker.CloudConfig) > 0 && kubeletconfig.KnowsCloudConfig(b.spec.Kubelet.Version) {
		cloudConfig = filepath.Join(b.layout.release, kubeletconfig.CloudConfigName(worker.CloudConfigPath))
		c.files = append(c.files, b.releaseContent(filepath.Base(cloudConfig), worker.CloudConfig))
	}
	var err error
	c.kubeletConfig, err = kubeletconfig.Config(kubeletconfig.Input{
		Version: b.spec.Kubelet.Version, Linux: worker.KubeletConfig, ClientCAFile: b.layout.kubeletCA,
		Endpoint: b.spec.Runtime.Endpoint, Network: b.spec.Network, Taints: b.spec.Node.Taints, Override: b.spec.Kubelet.Config,
	})
	if err != nil {
		return nil, reason.Wrap(reason.SpecInvalid, "kubelet configuration", err, "")
	}
	known := c.kubeletConfig
	if b.worker == nil {
		known = nil
	}
	c.files = append(c.files, b.releaseContent(filepath.Base(b.layout.kubeletConfig), known))
	command, err := b.command(cloudConfig, worker.KubeletFlags)
	if err != nil {
		return nil, reason.Wrap(reason.SpecInvalid, "kubelet command line", err, "")
	}
	c.service = kubeletService(b.spec, command)
	return c, nil
}

// releaseContent is a file that is written into the release folder: the kubelet's configuration, or else the cloud provider's, which may
// hold a password.
func (b *builder) releaseContent(name string, content []byte) file {
	path := filepath.Join(b.layout.release, name)
	f := file{name: "kubelet-config", action: "Write " + path, path: path, content: content, restart: true}
	f.yaml = path == b.layout.kubeletConfig
	if !f.yaml {
		f.name, f.secret = "cloud-config", true
	}
	return f
}

func (b *builder) command(cloudConfig string, linuxFlags map[string]string) ([]string, error) {
	args, err := kubeletconfig.Args(kubeletconfig.Command{
		Spec: b.spec, LinuxFlags: linuxFlags, NodeIP: b.nodeIP, Program: b.layout.kubelet, Config: b.layout.kubeletConfig,
		Kubeconfig: b.layout.kubeconfig, BootstrapKubeconfig: b.layout.bootstrap, CertDir: b.layout.pki, RootDir: b.layout.kubeletData,
		CloudConfig: cloudConfig,
	})
	if err != nil {
		return nil, err
	}
	for _, f := range b.spec.Files {
		if f.Name == filepath.Base(b.layout.logRunner) {
			version := f.Version
			if version == "" {
				version = b.spec.Kubelet.Version
			}
			return kubeletconfig.LogRunner(b.layout.logRunner, version, b.layout.kubeletLog, args)
		}
	}
	return args, nil
}

// record puts what was made where a roll-back and a status find it: the files into the store, the rest into the state.
func (b *builder) record(c *contents) (*state.Made, error) {
	made := &state.Made{Files: []nodespec.File{}, Service: c.service}
	made.Service.Environment = nil
	for _, f := range c.files {
		digest := digestOf(f.content)
		made.Files = append(made.Files, nodespec.File{Name: filepath.Base(f.path), SHA256: digest, Size: int64(len(f.content))})
		stored := filepath.Join(b.layout.store, digest)
		if have, err := securefile.Digest(stored); err == nil && have == digest {
			continue
		}
		if err := securefile.MakeFolder(b.layout.store); err != nil {
			return nil, err
		}
		if err := securefile.Write(stored, f.content); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// readMade gives what was recorded; nil where nothing was, or not all of it is there any more.
func (b *builder) readMade(applied *state.Applied) *contents {
	if applied.Made == nil {
		return nil
	}
	c := &contents{service: applied.Made.Service}
	c.service.Environment = proxyEnvironment(b.spec.Proxy)
	if b.worker != nil {
		c.bootstrap, c.kubeletCA = b.worker.BootstrapKubeconfig, b.worker.KubeletCA
	}
	for _, recorded := range applied.Made.Files {
		content := b.find(recorded)
		if content == nil {
			return nil
		}
		f := b.releaseContent(recorded.Name, content)
		if f.yaml {
			c.kubeletConfig = content
		}
		c.files = append(c.files, f)
	}
	return c
}

// find looks for a content in the store and in the release folder.
func (b *builder) find(f nodespec.File) []byte {
	for _, path := range []string{filepath.Join(b.layout.store, f.SHA256), filepath.Join(b.layout.release, f.Name)} {
		if content, err := os.ReadFile(path); err == nil && digestOf(content) == f.SHA256 {
			return content
		}
	}
	return nil
}
