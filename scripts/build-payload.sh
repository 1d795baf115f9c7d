#!/usr/bin/env bash
# Builds a release's payload reproducibly, and release.yml with the sizes and digests of its files. What is up to date is not built again.
#   scripts/build-payload.sh [RELEASE.yml [FOLDER [URL-FOLDER]]]
# without arguments the checkout's own release.yml into build/payload. URL-FOLDER is put before the files' URLs. KUBELET_EXE names another
# kubelet.exe than the one of the release's Kubernetes version, for tests of releases that are broken.
set -euo pipefail
cd "$(dirname "$0")/.."
source=${1:-release.yml} target=${2:-build/payload} url_folder=${3:-}
release=$(sed -n 's/^release: *//p' "$source")
kubernetes=$(sed -n 's/^kubernetes: *//p' "$source")
mkdir -p "$target" "build/stage/$release"

put() { # put FILE NAME: under a new name first, since others may have links to the old file
  cmp -s "$1" "$target/$2" && return
  ln -f "$1" "$target/$2.new" 2>/dev/null || cp "$1" "$target/$2.new"
  mv "$target/$2.new" "$target/$2"
}

scripts/build-kubernetes.sh "$kubernetes"
put "${KUBELET_EXE:-build/kubernetes/$kubernetes/kubelet.exe}" kubelet.exe
put "build/kubernetes/$kubernetes/kube-log-runner.exe" kube-log-runner.exe
CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -trimpath -buildvcs=false -ldflags "-s -w -X wsu.windows/internal/version.Release=$release" \
  -o "build/stage/$release/wmcb.exe" ./cmd/wmcb
cmp -s "build/stage/$release/wmcb.exe" "$target/wmcb.exe" || {
  cp "build/stage/$release/wmcb.exe" "$target/wmcb.exe.new" # a copy: the next build writes into the original
  mv "$target/wmcb.exe.new" "$target/wmcb.exe"
}
go run ./internal/release/gen "$source" "$target" "$url_folder" >"build/stage/$release/release.yml"
cmp -s "build/stage/$release/release.yml" "$target/release.yml" || mv "build/stage/$release/release.yml" "$target/release.yml"
