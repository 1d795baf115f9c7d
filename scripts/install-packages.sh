#!/usr/bin/env bash
# Installs the Debian packages that molecule/sandbox/packages.txt lists, those that are missing only.
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
echo "installing Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
