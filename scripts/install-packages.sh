#!/usr/bin/env bash
# Installs the Debian packages that molecule/sandbox/packages.txt lists, those that are missing only. None of their services is started: the
# sandbox starts the programs itself, with files of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
while read -r name _; do
  case "$name" in '' | '#'*) continue ;; esac
  dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$name")
done <molecule/sandbox/packages.txt
[ ${#missing[@]} -gt 0 ] || exit 0
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "packages are missing (${missing[*]}) and there is neither root nor sudo to install them" >&2
    exit 1
  }
  as_root=(sudo)
fi

# Packages ask this program whether their service may start; 101 is no. A machine that has one has decided already.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  trap 'exit 130' INT TERM HUP
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi
echo "installing Debian packages: ${missing[*]} (their services are not started now; systemctl disable those that shall not start at boot)"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
