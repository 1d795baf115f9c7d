#!/usr/bin/env bash
# Builds kubelet.exe and kube-log-runner.exe of a Kubernetes version that payload/kubernetes pins into build/kubernetes/VERSION:
# scripts/build-kubernetes.sh v1.36.3. What was built from the same pins, flags and Go is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 module=payload/kubernetes/$1 target=$PWD/build/kubernetes/$1
if [[ ! -e $module/go.mod ]]; then
  echo "$module: Kubernetes $version is not pinned; payload/README.md says how to" >&2
  exit 1
fi
mkdir -p "$target"
exec {lock}>"$target/.lock"
flock "$lock" # two builds at once would do the same work twice
export CGO_ENABLED=0 GOOS=windows GOARCH=amd64
flags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
stamp=$({ echo "$flags"; go version; cat "$module/go.mod" "$module/go.sum"; } | sha256sum)
if [[ $(cat "$target/.stamp" 2>/dev/null) == "$stamp" && -e $target/kubelet.exe && -e $target/kube-log-runner.exe ]]; then
  exit 0
fi
echo "Building kubelet.exe and kube-log-runner.exe $version (some minutes the first time) ..."
rm -f "$target/.stamp"
for package in k8s.io/kubernetes/cmd/kubelet k8s.io/component-base/logs/kube-log-runner; do
  name=$(basename "$package").exe
  # Under a new name: others have links to the old file.
  go build -C "$module" -trimpath -buildvcs=false -ldflags "$flags" -o "$target/$name.new" "$package"
  mv "$target/$name.new" "$target/$name"
done
echo "$stamp" >"$target/.stamp"
