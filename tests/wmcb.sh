#!/usr/bin/env bash
# Runs wmcb's own Windows tests on a Wine host: the node's life and its crashes, with the payload's real kubelet.exe as a real service and the real
# API server. Needs root, `make payload` and the sandbox's programs; starts and ends a sandbox of its own.
#   WSU_TEST_CRASH=long tests/wmcb.sh -test.run Killed     kills wmcb at every boundary and at 50 random moments (WSU_TEST_SEED repeats them)
set -euo pipefail
cd "$(dirname "$0")/.."
SANDBOX_HOSTS=1 SANDBOX_SUBNET=${SANDBOX_SUBNET:-10.93.0.0/24}
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
start_sandbox
net=${SANDBOX_SUBNET%.0/24}
GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go test -c -tags sandbox -o "$work/sandboxtest.exe" ./internal/wmcb/sandboxtest
GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build -o "$work/wmcb.exe" ./cmd/wmcb
curl -sk --fail -H 'Accept: application/vnd.coreos.ignition+json;version=3.2.0' "https://$net.1:22623/config/worker" >"$work/worker.ign"
# The machine under test joins again and again: the cluster's own approver approves what the bootstrap credentials ask for.
"$SANDBOX_DIR/bin/kubectl" --kubeconfig "$SANDBOX_DIR/kubeconfig" create clusterrolebinding approve-joins \
  --clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient --group=system:serviceaccounts >/dev/null
options=(-i "$SANDBOX_DIR/ssh/id_ed25519" -o "UserKnownHostsFile=$SANDBOX_DIR/ssh/known_hosts")
sftp -q "${options[@]}" -b - "Administrator@$net.11" >/dev/null <<BATCH
mkdir /C:/payload
put build/payload/kubelet.exe /C:/payload/kubelet.exe
put build/payload/kube-log-runner.exe /C:/payload/kube-log-runner.exe
put $work/worker.ign /C:/payload/worker.ign
put $work/wmcb.exe /C:/payload/wmcb.exe
put $work/sandboxtest.exe /C:/payload/sandboxtest.exe
BATCH
arguments=$(printf ' "%s"' "$@") # cmd.exe takes | and & in quotes for letters
# shellcheck disable=SC2029 # it is expanded here
ssh "${options[@]}" "Administrator@$net.11" \
  "set WSU_TEST_NODE_IP=$net.11&& set WSU_TEST_CRASH=${WSU_TEST_CRASH:-}&& set WSU_TEST_SEED=${WSU_TEST_SEED:-}&& C:\\payload\\sandboxtest.exe -test.timeout 90m -test.failfast ${*:+$arguments}"
