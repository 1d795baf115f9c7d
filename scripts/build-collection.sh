#!/usr/bin/env bash
# Assembles the collection wsu.windows out of the checkout into build/ansible_collections/wsu/windows. Every module is one
# symbolic link to the binary of this machine, so that it also works without the action plugin.
set -euo pipefail
cd "$(dirname "$0")/.."
target=build/ansible_collections/wsu/windows
release=$(sed -n 's/^version: *//p' galaxy.yml)
architecture=$(go env GOARCH)
mkdir -p "$target/plugins/bin" "$target/plugins/modules"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X wsu.windows/internal/version.Release=$release" \
  -o "$target/plugins/bin/wsu.linux-$architecture" ./cmd/wsu
for documentation in modules/*/*.yml; do
  name=$(basename "$documentation" .yml)
  cp "$documentation" "$target/plugins/modules/$name.yml"
  ln -sfn "../bin/wsu.linux-$architecture" "$target/plugins/modules/$name"
done
rm -rf "$target/plugins/action" "$target/roles" "$target/playbooks"
cp -R plugins/action "$target/plugins/action"
cp -R meta roles playbooks galaxy.yml README.md LICENSE CHANGELOG.md "$target/"
# Without a payload of its own the collection has a release.yml without digests, and the module payload says so.
if [[ -e build/payload/release.yml ]]; then
  cp build/payload/release.yml "$target/release.yml"
else
  cp release.yml "$target/release.yml"
fi
