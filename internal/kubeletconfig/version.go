package kubeletconfig

import (
	"fmt"
	"strconv"
	"strings"
)

// minorOf gives 36 for v1.36.3.
func minorOf(version string) (int, error) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 3 || parts[0] != "1" {
		return 0, fmt.Errorf("kubelet version %q is not one as v1.36.3", version)
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0, fmt.Errorf("kubelet version %q is not one as v1.36.3", version)
	}
	if minor < oldestMinor {
		return 0, fmt.Errorf("kubelet version %s is too old: 1.%d is the oldest that runs with containerd alone", version, oldestMinor)
	}
	return minor, nil
}

// oldestMinor is the first Kubernetes without dockershim.
const oldestMinor = 24

// span is the range of Kubernetes minors that know a flag, a field or a gate; last 0 means that it is still there.
type span struct{ first, last int }

func (s span) holds(minor int) bool { return minor >= s.first && (s.last == 0 || minor <= s.last) }

// flagSpans has the kubelet's flags that came or went since oldestMinor (Kubernetes' changelogs); all others are always known.
var flagSpans = map[string]span{
	"container-runtime":                      {0, 26},
	"container-runtime-endpoint":             {0, 0}, // deprecated since 1.27 for the field, and still read
	"cloud-config":                           {0, 33},
	"pod-infra-container-image":              {0, 34},
	"network-plugin":                         {0, 23},
	"cni-bin-dir":                            {0, 23},
	"cni-conf-dir":                           {0, 23},
	"cni-cache-dir":                          {0, 23},
	"network-plugin-mtu":                     {0, 23},
	"docker-endpoint":                        {0, 23},
	"image-pull-progress-deadline":           {0, 23},
	"experimental-dockershim-root-directory": {0, 23},
	"non-masquerade-cidr":                    {0, 23},
	"log-dir":                                {0, 25},
	"log-file":                               {0, 25},
	"log-file-max-size":                      {0, 25},
	"logtostderr":                            {0, 25},
	"alsologtostderr":                        {0, 25},
	"stderrthreshold":                        {0, 25},
	"one-output":                             {0, 25},
	"add-dir-header":                         {0, 25},
	"skip-headers":                           {0, 25},
	"skip-log-headers":                       {0, 25},
}

// fieldSpans likewise has the fields of KubeletConfiguration that this package may write.
var fieldSpans = map[string]span{
	"containerRuntimeEndpoint":    {27, 0},
	"enableSystemLogQuery":        {27, 0},
	"maxParallelImagePulls":       {27, 0},
	"imageMaximumGCAge":           {29, 0},
	"containerLogMaxWorkers":      {30, 0},
	"containerLogMonitorInterval": {30, 0},
}

// gateSpans has the feature gates that are set to true: not before they exist, and not after they are always on, because a gate is
// removed some releases later and an unknown one ends the kubelet.
var gateSpans = map[string]span{
	"NodeLogQuery":                   {27, 35},
	"RotateKubeletServerCertificate": {oldestMinor, 36},
}
