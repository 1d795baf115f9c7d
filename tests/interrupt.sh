#!/usr/bin/env bash
# Interrupts the join at moments (SIGNAL:SECONDS; many without arguments), by Ctrl-C and by kill -9, and runs it again: it ends with Ready nodes, and nothing of the interrupted
# run is left. Needs root, `make build`, `make payload`, `make setup` and the sandbox's programs; starts and ends a sandbox of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
SANDBOX_HOSTS=2 SANDBOX_SUBNET=10.92.0.0/24
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
start_sandbox
export HOME=$work
kubectl=("$SANDBOX_DIR/bin/kubectl" --kubeconfig "$SANDBOX_DIR/kubeconfig")
play=(.venv/bin/ansible-playbook -i "$SANDBOX_DIR/inventory")

fail() {
  printf 'FAIL %s\n' "$1"
  [[ ! -e $work/run.log ]] || tail -n 60 "$work/run.log"
  exit 1
}
ready() { "${kubectl[@]}" get nodes --no-headers 2>/dev/null | awk '$2 == "Ready"' | wc -l; }
# Processes of the run are those of its session: the modules have sessions of their own, but name the sandbox's kubeconfig or our folder.
left() { pgrep -f -- "$PWD/build/ansible_collections/wsu/windows/plugins/bin/wsu.linux" || true; }

moments=("$@")
((${#moments[@]})) || moments=(INT:1 INT:3 INT:4 INT:5 INT:6 INT:7 KILL:2 KILL:3 KILL:4 KILL:5 KILL:6 KILL:7)
for moment in "${moments[@]}"; do
  signal=${moment%:*} delay=${moment#*:}
  setsid "${play[@]}" scaleup.yml >"$work/interrupted.log" 2>&1 &
  leader=$!
  sleep "$delay"
  state="had ended"
  # A Ctrl-C reaches the whole process group; kill -9 only the one that was meant.
  if [[ $signal == INT ]]; then
    kill -INT -- "-$leader" 2>/dev/null && state="was interrupted"
  else
    kill -KILL "$leader" 2>/dev/null && state="was killed"
  fi
  wait "$leader" 2>/dev/null || true
  for _ in $(seq 100); do
    [[ -n $(left) ]] || break
    sleep 0.2
  done
  [[ -z $(left) ]] || fail "$moment: modules of the interrupted run still run"
  after=$(grep '^TASK' "$work/interrupted.log" | tail -n 1 | tr -d '*' || true)
  "${play[@]}" scaleup.yml >"$work/run.log" 2>&1 || fail "$moment ($after): the run after it failed"
  [[ $(ready) == 2 ]] || fail "$moment ($after): the nodes are not Ready"
  echo "ok   SIG$signal after $delay s: the run $state at: ${after:-the start}; then 2 nodes Ready"
  "${play[@]}" playbooks/remove.yml -e wsu_remove_hosts=winhost1,winhost2 >"$work/run.log" 2>&1 || fail "$moment: removal"
  [[ $("${kubectl[@]}" get nodes --no-headers 2>/dev/null | wc -l) == 0 ]] || fail "$moment: nodes were not deleted"
done
