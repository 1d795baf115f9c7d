#!/usr/bin/env bash
# Builds the release that release.yml names into build/release/VERSION: scripts/build-release.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."
release=$(sed -n 's/^release: *//p' release.yml)
version=${1:-$release}
if [[ $version != "$release" ]]; then
  echo "release.yml names the release $release, not $version: set the version there and in galaxy.yml first" >&2
  exit 1
fi
entry=$(awk -v heading="## [$version]" 'index($0, "## [") == 1 { inside = index($0, heading) == 1; next } inside && NF' CHANGELOG.md)
if [[ -z $entry ]]; then
  echo "CHANGELOG.md has no entry for $version: write what has changed under \"## [$version] - DATE\"" >&2
  exit 1
fi
if [[ -n $(git status --porcelain 2>&1) ]]; then
  echo "This is not a clean checkout of a commit: nobody else can build the same release" >&2
fi
scripts/assemble-release.sh release.yml
echo "build/release/$version"
ls -l "build/release/$version"
