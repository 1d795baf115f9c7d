#!/usr/bin/env bash
# Runs wmcb's own Windows tests on a Wine host: the node's life and its crashes, with the payload's real kubelet.exe as a real service. Needs
# root, `make payload` and the sandbox's programs; starts and ends a sandbox of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
SANDBOX_HOSTS=1 SANDBOX_SUBNET=10.93.0.0/24
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
start_sandbox
GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go test -c -tags sandbox -o "$work/sandboxtest.exe" ./internal/wmcb/sandboxtest
# The tests' kubelet has a certificate that no API server knows, so its API server is one that nobody answers for.
curl -sk --fail -H 'Accept: application/vnd.coreos.ignition+json;version=3.2.0' https://10.93.0.1:22623/config/worker |
  python3 -c '
import base64, json, sys
ignition = json.load(sys.stdin)
for file in ignition["storage"]["files"]:
    if file["path"] == "/etc/kubernetes/kubeconfig":
        from urllib.request import urlopen
        content = urlopen(file["contents"]["source"]).read().replace(b":6443", b":6444")
        file["contents"] = {"source": "data:;base64," + base64.b64encode(content).decode()}
json.dump(ignition, sys.stdout)' >"$work/worker.ign"
options=(-i "$SANDBOX_DIR/ssh/id_ed25519" -o "UserKnownHostsFile=$SANDBOX_DIR/ssh/known_hosts")
sftp -q "${options[@]}" -b - Administrator@10.93.0.11 >/dev/null <<BATCH
mkdir /C:/payload
put build/payload/kubelet.exe /C:/payload/kubelet.exe
put build/payload/kube-log-runner.exe /C:/payload/kube-log-runner.exe
put $work/worker.ign /C:/payload/worker.ign
put $work/sandboxtest.exe /C:/payload/sandboxtest.exe
BATCH
ssh "${options[@]}" Administrator@10.93.0.11 \
  'set WSU_TEST_NODE_IP=10.93.0.11&& C:\payload\sandboxtest.exe -test.timeout 15m -test.failfast'
