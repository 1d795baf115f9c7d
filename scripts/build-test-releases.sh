#!/usr/bin/env bash
# Builds releases for tests of upgrades, downgrades and roll-backs: each into build/release/VERSION as `make release` does, and into
# build/releases/VERSION what a user of it has: the collection, installed by ansible-galaxy, and an ansible.cfg.
#   scripts/build-test-releases.sh [VERSION...]
# without arguments all of them. Beside the version, and the kubelet that is named here, they are the same as today's. Run one from its folder:
#   cd build/releases/0.0.8 && ansible-playbook -i INVENTORY wsu.windows.scaleup
# with wsu_payload_url being a mirror of build/release, as the sandbox's is. What is up to date is not built again.
set -euo pipefail
cd "$(dirname "$0")/.."
today=$(sed -n 's/^release: *//p' release.yml)
kubernetes=$(sed -n 's/^kubernetes: *//p' release.yml)

describe() { # describe VERSION: what kubelet it has, of which Kubernetes version
  case $1 in
    0.0.8) echo real v1.35.8 ;;
    0.0.9) echo real v1.36.2 ;;
    "$today") echo real "$kubernetes" ;;
    0.9.1-exits | 0.9.2-hangs | 0.9.3-unregistered) echo "${1#*-}" "$kubernetes" ;;
    *)
      echo "$1: no such test release; there are ${all[*]}" >&2
      return 1
      ;;
  esac
}

build() { # build VERSION KUBELET KUBERNETES
  local version=$1 kubelet=$2 source=build/stage/$1/source.yml
  mkdir -p "build/stage/$version"
  sed -e "s/^release: .*/release: $version/" -e "s/^kubernetes: .*/kubernetes: $3/" \
    -e "s/version: $kubernetes\$/version: $3/" -e "s/version: $today\$/version: $version/" release.yml >"$source"
  if [[ $kubelet == real ]]; then
    scripts/assemble-release.sh "$source"
  else
    CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -trimpath -buildvcs=false -ldflags "-s -w -X wsu.windows/tests/releases/broken.Version=$3" \
      -o "build/stage/$version/kubelet.exe" "./tests/releases/broken/$kubelet"
    cp --remove-destination "build/stage/$version/kubelet.exe" "build/stage/$version/kubelet-done.exe" # the next build writes into the original
    KUBELET_EXE=build/stage/$version/kubelet-done.exe scripts/assemble-release.sh "$source"
  fi
}

# install VERSION: as users do
install() {
  local tarball=build/release/$1/wsu-windows-$1.tar.gz tree=build/releases/$1 stamp
  stamp=$(sha256sum <"$tarball")
  [[ $(cat "$tree/.stamp" 2>/dev/null) == "$stamp" ]] && return
  rm -rf "$tree"
  mkdir -p "$tree"
  sed -e 's/^collections_path = .*/collections_path = ./' -e '/^inventory = /d' ansible.cfg >"$tree/ansible.cfg"
  ANSIBLE_CONFIG=$tree/ansible.cfg .venv/bin/ansible-galaxy collection install --offline "$tarball" -p "$tree" >"$tree/install.log" 2>&1 || {
    cat "$tree/install.log" >&2
    return 1
  }
  echo "$stamp" >"$tree/.stamp"
}

all=(0.0.8 0.0.9 "$today" 0.9.1-exits 0.9.2-hangs 0.9.3-unregistered)
if [[ $# == 0 ]]; then
  set -- "${all[@]}"
fi
for version; do
  what=$(describe "$version")
  read -r kubelet of <<<"$what"
  started=$SECONDS
  build "$version" "$kubelet" "$of"
  install "$version"
  echo "build/releases/$version: kubelet $of ($kubelet), $((SECONDS - started)) s"
done
