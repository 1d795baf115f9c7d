// Package foreign finds out whether another tool has made a machine a node, and names it: what one tool made, another must not change.
package foreign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"wsu.windows/internal/reason"
	"wsu.windows/internal/winservice"
)

// tool is what makes Windows nodes, how it is known, and how its nodes are removed.
type tool struct {
	name string
	// services are its own; files lie in the install folder; lines are parts of its kubelet's command line, in lower case.
	services, files, lines []string
	remedy                 string
}

// tools, the more certain ones first. Sources: WMCO's pkg/services and pkg/windows; RKE2's and k0s' documentation of Windows nodes; the set-up
// scripts of sig-windows-tools, of Amazon's EKS, of AKS Engine and of GKE's windows nodes (kubernetes/cluster/gce/windows).
var tools = []tool{
	{
		name: "the Windows Machine Config Operator", services: []string{"windows-instance-config-daemon", "wicd"},
		files: []string{"windows-instance-config-daemon.exe", "wicd-kubeconfig"}, lines: []string{`\k\kubelet.exe --config=c:\k\kubelet.conf`},
		remedy: "Take the machine out of the operator's MachineSet, or of its configuration windows-instances; it then cleans up. Run it again afterwards.",
	},
	{
		name: "RKE2", services: []string{"rke2"}, lines: []string{`\rancher\rke2\`, `\rke2\`},
		remedy: `Remove the node with RKE2's own rke2-uninstall.ps1, which lies in C:\usr\local\bin.`,
	},
	{name: "Rancher", services: []string{"rancher-wins"}, lines: []string{`\rancher\`}, remedy: "Remove the node in Rancher, and clean the machine up as its documentation says."},
	{name: "k0s", services: []string{"k0sworker"}, lines: []string{`\k0s`}, remedy: "Run k0s.exe stop and k0s.exe reset on the machine."},
	{name: "Amazon EKS", lines: []string{`\amazon\eks\`}, remedy: "Use a machine that was not made out of an EKS image."},
	{name: "Google Kubernetes Engine", lines: []string{`\etc\kubernetes\node\bin\`}, remedy: "Use a machine that is no node of GKE."},
	{
		name: "kubeadm with the scripts of sig-windows-tools, or AKS", files: []string{"StartKubelet.ps1", "kubeletstart.ps1"}, lines: []string{`nssm.exe`, `startkubelet.ps1`, `kubeletstart.ps1`},
		remedy: "Run kubeadm.exe reset on the machine, and delete the services kubelet and kube-proxy and the scripts.",
	},
}

// Check gives an error that names the tool to which the machine belongs: ForeignNode where the tool itself is there, ForeignKubelet where it
// is known by its kubelet alone; nil where there is none. A kubelet whose tool it does not know is the caller's to judge. install is our own
// install folder.
func Check(services winservice.Services, install string) error {
	for _, t := range tools {
		for _, name := range t.services {
			config, err := services.Config(name)
			if err != nil {
				return fmt.Errorf("service %s: %w", name, err)
			}
			if config != nil {
				return reason.New(reason.ForeignNode, "service "+name, "it belongs to "+t.name+", which manages this machine", t.remedy)
			}
		}
		for _, name := range t.files {
			path := filepath.Join(install, name)
			if _, err := os.Lstat(path); err == nil {
				return reason.New(reason.ForeignNode, path, "it belongs to "+t.name+", which manages this machine", t.remedy)
			}
		}
	}
	config, err := services.Config("kubelet")
	if err != nil || config == nil || isOurs(config, install) {
		return err
	}
	for _, t := range tools {
		for _, part := range t.lines {
			if strings.Contains(strings.ToLower(config.CommandLine), part) {
				return reason.New(reason.ForeignKubelet, "service kubelet", "it belongs to "+t.name+": "+config.CommandLine, t.remedy)
			}
		}
	}
	return nil
}

// isOurs tells a kubelet of wmcb's by where its programs lie.
func isOurs(config *winservice.Config, install string) bool {
	program := strings.ToLower(strings.TrimPrefix(config.CommandLine, `"`))
	return strings.HasPrefix(program, strings.ToLower(filepath.Join(install, "releases")))
}

// Unknown is the error of a kubelet whose tool is not known.
func Unknown(config *winservice.Config) error {
	return reason.New(reason.ForeignKubelet, "service kubelet", "another tool made it, or somebody by hand: "+config.CommandLine,
		"Remove it with the tool that installed it; one that was made by hand: sc stop kubelet, sc delete kubelet.")
}
