// Package sandboxtest tests apply, status and remove with the real kubelet.exe as a real Windows service. Its tests are Windows programs
// (build tag sandbox) that run on a Windows host, in the sandbox or elsewhere:
//
//	GOOS=windows go test -c -tags sandbox -o sandboxtest.exe ./internal/wmcb/sandboxtest
//
// On the host, C:\payload (or WSU_TEST_PAYLOAD) has kubelet.exe, kube-log-runner.exe and worker.ign, a worker Ignition; WSU_TEST_NODE_IP is the
// host's address, and the service containerd runs. The API server need not be there: the kubelet is healthy without it. The tests end with
// a removed node.
package sandboxtest
