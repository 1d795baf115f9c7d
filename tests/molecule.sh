#!/usr/bin/env bash
# Runs a Molecule scenario with one ansible-core, in a sandbox of its own: tests/molecule.sh VENV SCENARIO. Needs root, `make build`, `make
# payload`, `make setup` and the sandbox's programs.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1 scenario=$2
WSU_MOLECULE_SANDBOX=$(mktemp -d)
export WSU_MOLECULE_SANDBOX SANDBOX_DIR=$WSU_MOLECULE_SANDBOX SANDBOX_SUBNET=10.96.0.0/24 SANDBOX_HOSTS=2
# Molecule links to the inventory before the sandbox has written it.
mkdir -p "$SANDBOX_DIR/bin" "$SANDBOX_DIR/inventory/group_vars"
touch "$SANDBOX_DIR/inventory/hosts.yml"
ln .sandbox/bin/* "$SANDBOX_DIR/bin/" 2>/dev/null || cp .sandbox/bin/* "$SANDBOX_DIR/bin/"
finish() {
  "$SANDBOX_DIR/bin/sandbox" down >/dev/null
  rm -rf "$SANDBOX_DIR"
}
trap finish EXIT
PATH=$PWD/$venv/bin:$PATH
ansible --version | sed -n 1p
molecule test --scenario-name "$scenario"
