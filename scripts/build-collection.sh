#!/usr/bin/env bash
# Assembles the collection wsu.windows out of the checkout.
#   scripts/build-collection.sh [RELEASE.yml FOLDER ARCHITECTURE...]
# without arguments for this machine into build/ansible_collections/wsu/windows, with the release.yml of `make payload`. Every module is one
# symbolic link to the binary of the first architecture, so that it also works without the action plugin.
set -euo pipefail
cd "$(dirname "$0")/.."
source=${1:-build/payload/release.yml} target=${2:-build/ansible_collections/wsu/windows}
architectures=("${@:3}")
if [[ $# == 0 ]]; then
  architectures=("$(go env GOARCH)")
  # Without a payload of its own the collection has a release.yml without digests, and the module payload says so.
  [[ -e $source ]] || source=release.yml
fi
release=$(sed -n 's/^release: *//p' "$source")
mkdir -p "$target/plugins/bin"
for architecture in "${architectures[@]}"; do
  CGO_ENABLED=0 GOOS=linux GOARCH=$architecture go build -trimpath -buildvcs=false -ldflags "-s -w -X wsu.windows/internal/version.Release=$release" \
    -o "$target/plugins/bin/wsu.linux-$architecture" ./cmd/wsu
done
mkdir -p "$target/plugins/modules"
for documentation in modules/*/*.yml; do
  name=$(basename "$documentation" .yml)
  cp "$documentation" "$target/plugins/modules/$name.yml"
  ln -sfn "../bin/wsu.linux-${architectures[0]}" "$target/plugins/modules/$name"
done
rm -rf "$target"/{plugins/action,meta,roles,playbooks,docs,inventory}
cp -R plugins/action "$target/plugins/action"
cp -R meta roles playbooks docs inventory README.md LICENSE CHANGELOG.md requirements.txt "$target/"
find "$target" -name __pycache__ -prune -exec rm -rf {} +
sed "s/^version: .*/version: $release/" galaxy.yml >"$target/galaxy.yml"
cp "$source" "$target/release.yml"
