#!/usr/bin/env bash
# Builds the release twice, from two copies of the checkout in different places, and looks at the result as a user does: the same bytes, installable by
# ansible-galaxy, modules that run, checksums that hold, an SBOM that is valid and complete. Needs `make setup`.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
release=$(sed -n 's/^release: *//p' release.yml)
kubernetes=$(sed -n 's/^kubernetes: *//p' release.yml)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

fail() {
  echo "FAIL $*"
  exit 1
}

expect() { # expect NAME TEXT COMMAND...: the command's output holds the text
  local name=$1 text=$2 output
  shift 2
  output=$("$@" 2>&1) || true
  grep -qF -- "$text" <<<"$output" || fail "$name: expected \"$text\" in: $output"
  echo "ok   $name"
}

copy() { # copy FOLDER: the checkout as it is, without what was built
  mkdir -p "$1"
  tar -C "$work/snapshot" -c . | tar -C "$1" -x
}

mkdir "$work/snapshot"
git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
  [[ ! -e $file ]] || printf '%s\0' "$file"
done | tar --null -T - -c | tar -C "$work/snapshot" -x
copy "$work/one"
copy "$work/in/another/place"
(cd "$work/one" && umask 022 && time scripts/build-release.sh)
# As another user on another day: other modes and times of the files.
find "$work/in/another/place" -exec touch -d 2020-01-01 {} +
(cd "$work/in/another/place" && umask 077 && scripts/build-release.sh "$release" >/dev/null)
one=$work/one/build/release/$release
[[ $(find "$one" -type f | wc -l) == 7 ]] || fail "there are other files than the seven of a release: $(ls "$one")"
diff -r "$one" "$work/in/another/place/build/release/$release" || fail "two builds differ"
echo "ok   two builds have the same bytes"

(cd "$one" && sha256sum --quiet --strict -c SHA256SUMS) || fail "SHA256SUMS"
[[ $(wc -l <"$one/SHA256SUMS") == 6 ]] || fail "SHA256SUMS leaves a file out"
echo "ok   SHA256SUMS holds for every file"

expect "another version than release.yml's is refused" "release.yml names the release $release, not 9.9.9" "$work/one/scripts/build-release.sh" 9.9.9
sed -i "s/^## \[$release\].*/## [0.0.0]/" "$work/one/CHANGELOG.md"
expect "a version without an entry in CHANGELOG.md is refused" "CHANGELOG.md has no entry for $release" "$work/one/scripts/build-release.sh"
printf '\n## [%s]\n\n' "$release" >>"$work/one/CHANGELOG.md"
expect "an empty entry is refused" "CHANGELOG.md has no entry for $release" "$work/one/scripts/build-release.sh"

for venv in .venv-2.16 .venv; do
  bin=$PWD/$venv/bin
  "$bin/ansible" --version | sed -n 1p
  installed=$work/installed$venv
  mkdir "$installed"
  printf '[defaults]\ncollections_path = .\n' >"$installed/ansible.cfg"
  export ANSIBLE_CONFIG=$installed/ansible.cfg
  expect "ansible-galaxy installs it into an empty folder" "wsu.windows:$release was installed successfully" \
    "$bin/ansible-galaxy" collection install --offline "$one/wsu-windows-$release.tar.gz" -p "$installed"
  expect "ansible-galaxy verifies what it installed" "Successfully verified" "$bin/ansible-galaxy" collection verify --offline wsu.windows
  expect "ansible-doc shows a module" "WSU.WINDOWS.TRANSFER" bash -c "'$bin/ansible-doc' -t module wsu.windows.transfer | tr a-z A-Z"
  expect "a module runs, and names a wrong argument" 'Did you mean kubeconfig?' "$bin/ansible" localhost -m wsu.windows.ignition -a kubeconfg=x
  expect "the playbooks are there by name" "Check the inventory" "$bin/ansible-playbook" --list-tasks wsu.windows.scaleup
  collection=$installed/ansible_collections/wsu/windows
  cmp "$collection/release.yml" "$one/release.yml" || fail "the collection has another release.yml"
  echo '{"kubeconfg": "x"}' >"$work/arguments"
  expect "a module runs without the action plugin" 'Did you mean kubeconfig?' "$collection/plugins/modules/ignition" "$work/arguments"
  for architecture in amd64 arm64; do
    expect "there are modules for linux/$architecture" "GOARCH=$architecture" go version -m "$collection/plugins/bin/wsu.linux-$architecture"
  done
done
expect "kubelet.exe is of the version that release.yml names" $'mod\tk8s.io/kubernetes\t'"$kubernetes"$'\t' go version -m "$one/kubelet.exe"

schema=$(go mod download -json github.com/CycloneDX/cyclonedx-go@v0.12.0 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/schema
.venv/bin/python tests/releases/check_sbom.py "$schema" "$one/sbom.cdx.json" "$one"/*.exe "$collection"/plugins/bin/*
(cd "$one" && stat -c '%12s %n' -- *)
