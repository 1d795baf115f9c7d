#!/usr/bin/env bash
# Runs modules of the assembled collection through the action plugin, under every supported ansible-core, against a control plane of the
# sandbox that this script starts and ends. Needs root, `make build`, `make setup` and the sandbox's programs.
set -euo pipefail
cd "$(dirname "$0")/.."
SANDBOX_HOSTS=0 SANDBOX_SUBNET=10.95.0.0/24
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
start_sandbox
kubeconfig=$SANDBOX_DIR/kubeconfig

expect() { # expect NAME TEXT COMMAND...: the command's output holds the text
  local name=$1 text=$2 output
  shift 2
  output=$("$@" 2>&1) || true
  if ! grep -qF -- "$text" <<<"$output"; then
    printf 'FAIL %s: expected %q in:\n%s\n' "$name" "$text" "$output"
    exit 1
  fi
  echo "ok   $name"
}

for venv in .venv-2.16 .venv; do
  run=("$venv/bin/ansible" -i "localhost," -c local localhost)
  "$venv/bin/ansible" --version | sed -n 1p
  expect "cluster_info recognises the cluster" '"flavour": "openshift"' \
    "${run[@]}" -m wsu.windows.cluster_info -a "kubeconfig=$kubeconfig"
  expect "ignition completes the rendered MachineConfig" '"source": "api"' \
    "${run[@]}" -m wsu.windows.ignition -a "kubeconfig=$kubeconfig cache_dir=$SANDBOX_DIR/cache"
  expect "ignition takes it from the Machine Config Server" '"source": "server"' \
    "${run[@]}" -m wsu.windows.ignition -a "kubeconfig=$kubeconfig cache_dir=$SANDBOX_DIR/cache source=server"
  expect "a missing kubeconfig is named" '"reason": "kubeconfig_missing"' \
    "${run[@]}" -m wsu.windows.cluster_info -a "kubeconfig=/nope"
  expect "a misspelt argument is named with a suggestion" 'Did you mean kubeconfig?' \
    "${run[@]}" -m wsu.windows.cluster_info -a "kubeconfg=x"
  for documentation in modules/*/*.yml; do
    name=$(basename "$documentation" .yml)
    expect "ansible-doc shows $name" "$name" "$venv/bin/ansible-doc" -t module "wsu.windows.$name"
  done
done
if find "$SANDBOX_DIR/cache" -type f ! -perm 600 | grep .; then
  echo "FAIL the Ignition in the cache is readable by others"
  exit 1
fi
echo "ok   nobody else can read the cached Ignition"
