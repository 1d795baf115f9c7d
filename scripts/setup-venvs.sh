#!/usr/bin/env bash
# Makes .venv (the newest supported ansible-core), .venv-2.16 (the oldest) and .venv-sandbox (the WinRM endpoint of the sandbox and clients
# to test it with) from the pinned requirements, once per change of them.
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
make_venv .venv-sandbox requirements-sandbox.txt
# `python -m winrm_endpoint` works from anywhere.
for packages in .venv-sandbox/lib/python3*/site-packages; do
  echo "$PWD/molecule/sandbox/winrm" >"$packages/winrm-endpoint.pth"
done
