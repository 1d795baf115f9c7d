package nodespec

import (
	"maps"
	"slices"
)

// Defaults of a NodeSpec's empty fields.
const (
	DefaultInstall              = `C:\k`
	DefaultLogs                 = `C:\var\log`
	DefaultKubeletData          = `C:\var\lib\kubelet`
	DefaultRuntimeService       = "containerd"
	DefaultRuntimeEndpoint      = "npipe://./pipe/containerd-containerd"
	DefaultClusterDomain        = "cluster.local"
	DefaultTaint                = "os=Windows:NoSchedule"
	DefaultHealthTimeoutSeconds = 60
)

// Default fills the empty fields in. Taints that are absent become the default one; an empty list stays empty.
func Default(s *NodeSpec) {
	fill(&s.Paths.Install, DefaultInstall)
	fill(&s.Paths.Logs, DefaultLogs)
	fill(&s.Paths.KubeletData, DefaultKubeletData)
	fill(&s.Runtime.Service, DefaultRuntimeService)
	fill(&s.Runtime.Endpoint, DefaultRuntimeEndpoint)
	if s.Node.Taints == nil {
		s.Node.Taints = []string{DefaultTaint}
	}
	if s.Kubelet.HealthTimeoutSeconds == 0 {
		s.Kubelet.HealthTimeoutSeconds = DefaultHealthTimeoutSeconds
	}
}

func fill(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
