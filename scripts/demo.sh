#!/usr/bin/env bash
# Joins the sandbox's Windows hosts with the playbook that users run, shows the nodes, and says what to try next. `make demo` has built
# everything and started the sandbox.
set -euo pipefail
cd "$(dirname "$0")/.."
kubectl=".sandbox/bin/kubectl --kubeconfig .sandbox/kubeconfig"
play=".venv/bin/ansible-playbook"
.sandbox/bin/sandbox mirror >/dev/null # a sandbox that ran already may serve an older build

echo
echo "==> ansible-playbook scaleup.yml -i .sandbox/inventory"
started=$SECONDS
ANSIBLE_FORCE_COLOR=${ANSIBLE_FORCE_COLOR:-$([[ -t 1 ]] && echo 1 || echo 0)} $play scaleup.yml -i .sandbox/inventory -e wsu_report_dir="$PWD/.sandbox/reports"
echo "==> Joined within $((SECONDS - started)) s"
echo
$kubectl get nodes -o wide
cat <<TEXT

Try next:
  $play scaleup.yml -i .sandbox/inventory                  again: nothing changes
  $play scaleup.yml -i .sandbox/inventory --check --diff   the plan, without doing it
  $play playbooks/preflight.yml -i .sandbox/inventory      the checks alone
  $play playbooks/gather.yml -i .sandbox/inventory         support archives
  $play playbooks/remove.yml -i .sandbox/inventory -e wsu_remove_hosts=winhost2
  make sandbox-reboot HOST=winhost1                        the node comes back by itself
  .sandbox/bin/sandbox fill winhost2                       break something, run scaleup again, read what it says
  $kubectl get nodes,csr
  make sandbox-down                                        end it all
TEXT
