package ignition

import (
	"os"
	"testing"

	"wsu.windows/internal/reason"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"name":"kubelet.service","contents":"[Service]\nExecStart=/usr/bin/kubelet --v=${A},b \\\n \\\n --c 1\n"}]}}`))
	f.Add([]byte(`{"ignition":{"version":"2.2.0"},"storage":{"files":null},"systemd":{"units":[{"name":"kubelet.service","dropins":[{"name":"a.conf","contents":"[Service]\nEnvironment=\"A=1"}]}]}}`))
	f.Add([]byte(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubeconfig","contents":{"source":"data:;base64,aGk=","compression":""}}]},"systemd":{"units":[{"name":"kubelet.service","contents":"[Service]\nExecStart=kubelet"}]}}`))
	if dir := os.Getenv("WSU_SHARED_DATA"); dir != "" {
		for _, name := range []string{"/ignition/release-5.0-none/worker.served.spec3.2.0.ign", "/ignition/release-5.0-none/worker.served.spec2.2.0.ign"} {
			if raw, err := os.ReadFile(dir + name); err == nil {
				f.Add(raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := Parse(raw)
		if err != nil {
			if !reason.Is(err, reason.IgnitionInvalid) {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		if len(w.BootstrapKubeconfig) == 0 || w.APIServer == "" || len(w.KubeletCA) == 0 {
			t.Fatal("a worker without what a node needs")
		}
	})
}

func FuzzComplete(f *testing.F) {
	f.Add([]byte(`{"ignition":{"version":"3.2.0"}}`))
	f.Add([]byte(`{"ignition":{"version":"2.2.0"},"storage":{"files":[{"path":1},null]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		completed, err := Complete(raw, []byte("k"), []byte("c"))
		if err != nil {
			return
		}
		again, err := Complete(completed, []byte("k"), []byte("c"))
		if err != nil || string(again) != string(completed) {
			t.Fatalf("completing twice differs: %v", err)
		}
	})
}
