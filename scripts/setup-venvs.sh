#!/usr/bin/env bash
# Makes .venv (the newest supported ansible-core) and .venv-2.16 (the oldest) from the pinned requirements, once per change of them.
set -euo pipefail
cd "$(dirname "$0")/.."
make_venv() {
  local folder=$1 requirements=$2 stamp
  stamp=$(cat requirements*.txt | sha256sum)
  if [ "$(cat "$folder/.stamp" 2>/dev/null)" != "$stamp" ]; then
    "${PYTHON:-python3}" -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
    echo "$stamp" >"$folder/.stamp"
  fi
}
make_venv .venv requirements-dev.txt
make_venv .venv-2.16 requirements-2.16.txt
