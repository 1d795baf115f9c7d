#!/usr/bin/env bash
# Builds everything of one release into build/release/VERSION: the payload's files, release.yml, the collection's tarball, the SBOM and
# SHA256SUMS: scripts/assemble-release.sh RELEASE.yml
# The same sources give the same bytes: all times are SOURCE_DATE_EPOCH, by default that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$1
release=$(sed -n 's/^release: *//p' "$source")
target=build/release/$release stage=build/stage/$release/collection
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# wmcb.exe travels without our stream; Galaxy takes no larger tarballs.
largest_wmcb=12000000 largest_tarball=20000000

fits() { # fits FILE BYTES
  local size
  size=$(stat -c %s "$1")
  ((size < $2)) && return
  echo "$1: it has $size bytes, and has to be smaller than $2" >&2
  exit 1
}

scripts/build-payload.sh "$source" "$target" "$release"
fits "$target/wmcb.exe" $largest_wmcb
scripts/build-collection.sh "$target/release.yml" "$stage" amd64 arm64
tarball=$target/wsu-windows-$release.tar.gz
go run ./internal/release/pack "$stage" "$tarball"
fits "$tarball" $largest_tarball
go run ./internal/release/sbom "$release" "$target"/*.exe "$stage"/plugins/bin/* >"$target/sbom.cdx.json.new"
mv "$target/sbom.cdx.json.new" "$target/sbom.cdx.json"
(cd "$target" && sha256sum -- *.exe release.yml sbom.cdx.json *.tar.gz >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
