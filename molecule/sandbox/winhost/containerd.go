package winhost

import (
	_ "embed"
	"path/filepath"
)

// containerdConfig follows containerd's defaults for Windows, with CNI in C:\ProgramData\containerd\cni.
//
//go:embed containerd/config.toml
var containerdConfig string

// cniConfig is what the node needs to be Ready: containerd's CRI plugin calls the network ready once a configuration loads. The plugin
// that it names is run for pods only, and no pod's containers run here.
//
//go:embed containerd/cni.conf
var cniConfig string

// The paths of containerd on drive C:, as a path below it.
const (
	containerdProgram = "Program Files/containerd/containerd.exe"
	containerdToml    = "Program Files/containerd/config.toml"
	containerdCNI     = "ProgramData/containerd/cni/conf/10-sandbox.conf"
)

func fillContainerd(disk, containerd string) error {
	if err := installFile(containerd, filepath.Join(disk, filepath.FromSlash(containerdProgram))); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(disk, filepath.FromSlash(containerdToml)), containerdConfig, 0o644); err != nil {
		return err
	}
	return writeFile(filepath.Join(disk, filepath.FromSlash(containerdCNI)), cniConfig, 0o644)
}

// containerdService defines the service as `containerd.exe --register-service` does.
func containerdService() registry {
	return registry{key(`System\CurrentControlSet\Services\containerd`,
		text("DisplayName", "containerd"),
		text("Description", "Container runtime"),
		text("ImagePath", `"C:\Program Files\containerd\containerd.exe" --run-service --service-name containerd `+
			`--config "C:\Program Files\containerd\config.toml" --log-file C:\ProgramData\containerd\containerd.log --log-level info`),
		text("ObjectName", "LocalSystem"),
		number("ErrorControl", 1),
		number("Start", 2), // automatic
		number("Type", 16), // own process
		number("PreshutdownTimeout", 180000),
	)}
}
