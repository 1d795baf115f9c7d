#!/usr/bin/env bash
# Builds the payload's files reproducibly into build/payload, and release.yml with their sizes and digests. What is up to date is not built
# again: the kubelet by the digest of its go.sum and flags, wmcb.exe by Go itself.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/build/payload
release=$(sed -n 's/^release: *//p' release.yml)
kubernetes=$(sed -n 's/^kubernetes: *//p' release.yml)
export CGO_ENABLED=0 GOOS=windows GOARCH=amd64
mkdir -p "$target"

kubernetes_flags="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes"
stamp=$({ echo "$kubernetes_flags"; go version; cat payload/kubernetes/go.mod payload/kubernetes/go.sum; } | sha256sum)
if [[ $(cat "$target/.kubernetes" 2>/dev/null) != "$stamp" || ! -e $target/kubelet.exe || ! -e $target/kube-log-runner.exe ]]; then
  echo "Building kubelet.exe and kube-log-runner.exe $kubernetes (some minutes the first time) ..."
  for program in kubelet kube-log-runner; do
    package=k8s.io/kubernetes/cmd/kubelet
    [[ $program == kubelet ]] || package=k8s.io/component-base/logs/kube-log-runner
    go build -C payload/kubernetes -trimpath -buildvcs=false -ldflags "$kubernetes_flags" -o "$target/$program.exe" "$package"
  done
  echo "$stamp" >"$target/.kubernetes"
fi
go build -trimpath -buildvcs=false -ldflags "-s -w -X wsu.windows/internal/version.Release=$release" -o "$target/wmcb.exe" ./cmd/wmcb
unset GOOS GOARCH
go run ./internal/release/gen release.yml "$target" >"$target/release.yml.new"
mv "$target/release.yml.new" "$target/release.yml"
