#!/usr/bin/env bash
# What a transfer to Windows hosts costs beside its peers, in one run, on the same hosts: tests/bench-transfer.sh [CASE]. Prints a table and
# JSON. BENCH_HOSTS hosts (2; 20 for the case `many`), BENCH_RUNS runs of each case (3). The first host has SSH, the second WinRM as well.
set -euo pipefail
cd "$(dirname "$0")/.."
SANDBOX_HOSTS=${BENCH_HOSTS:-2} SANDBOX_SUBNET=10.86.0.0/24
export SANDBOX_WINRM=2
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
kubernetes=$(sed -n 's/^kubernetes: *//p' release.yml)
previous=v1.36.2
scripts/build-kubernetes.sh "$previous"
CGO_ENABLED=0 GOOS=windows go build -o "$work/decode.exe" ./tests/benchtransfer/decode
go build -o "$work/benchtransfer" ./tests/benchtransfer
start_sandbox
"$work/benchtransfer" -sandbox "$SANDBOX_DIR" -previous "build/kubernetes/$previous/kubelet.exe" -kubernetes "$previous to $kubernetes" \
  -decoder "$work/decode.exe" -runs "${BENCH_RUNS:-3}" -only "${1:-}"
