#!/usr/bin/env bash
# Runs a Molecule scenario with one ansible-core, in a sandbox of its own: tests/molecule.sh VENV SCENARIO. Needs root, `make build`, `make
# payload`, `make setup` and the sandbox's programs.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1 scenario=$2
SANDBOX_HOSTS=2 SANDBOX_SUBNET=10.96.0.0/24
case $scenario in # which hosts the inventory reaches over WinRM
  winrm) SANDBOX_WINRM=all ;;
  mixed) SANDBOX_WINRM=2 ;;
  *) SANDBOX_WINRM= ;;
esac
export SANDBOX_WINRM
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
# Molecule's own folder outlives a run that was killed, with links to a sandbox that is gone.
export WSU_MOLECULE_SANDBOX=$SANDBOX_DIR MOLECULE_EPHEMERAL_DIRECTORY=$work/molecule
# Molecule links to the inventory before the sandbox, which the scenario starts, has written it.
mkdir -p "$SANDBOX_DIR/inventory/group_vars"
touch "$SANDBOX_DIR/inventory/hosts.yml"
PATH=$PWD/$venv/bin:$PATH
ansible --version | sed -n 1p
molecule test --scenario-name "$scenario"
