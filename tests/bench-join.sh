#!/usr/bin/env bash
# What a join and an unchanged rerun cost the control host, in CPU seconds per host, beside the peer in the same run: Ansible alone, sending as
# many trivial commands over its own SSH connection as we have tasks. Prints a table and JSON. BENCH_HOSTS hosts (4), one warm-up join.
set -euo pipefail
cd "$(dirname "$0")/.."
hosts=${BENCH_HOSTS:-4}
SANDBOX_HOSTS=$hosts SANDBOX_SUBNET=10.94.0.0/24
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
start_sandbox
cat >"$work/peer.yml" <<'PLAY'
- hosts: windows
  gather_facts: false
  tasks:
PLAY
for task in 1 2 3 4 5 6 7 8; do
  printf '    - name: Command %s\n      ansible.builtin.raw: ver\n' "$task" >>"$work/peer.yml"
done
TIMEFORMAT='%R %U %S'
measure() { # measure NAME COMMAND...: wall, user and system seconds into $work/NAME
  local name=$1
  shift
  { time "$@" >"$work/$name.log" 2>&1; } 2>"$work/$name"
}
play=(.venv/bin/ansible-playbook -i "$SANDBOX_DIR/inventory")
export HOME=$work
measure peer "${play[@]}" "$work/peer.yml"
measure join "${play[@]}" scaleup.yml -e "wsu_report_dir=$work/join-report"
measure unchanged "${play[@]}" scaleup.yml -e "wsu_report_dir=$work/unchanged-report"
measure startup .venv/bin/ansible localhost -m ansible.builtin.debug
.venv/bin/python - "$work" "$hosts" <<'PYTHON'
import glob, json, sys
work, hosts = sys.argv[1], int(sys.argv[2])
def cpu(name):
    wall, user, system = map(float, open(f"{work}/{name}").read().split())
    return {"wall_s": wall, "cpu_s": round(user + system, 2), "cpu_s_per_host": round((user + system) / hosts, 3)}
result = {name: cpu(name) for name in ("startup", "peer", "join", "unchanged")}
for name in ("join", "unchanged"):
    result[name]["ratio_to_peer"] = round(result[name]["cpu_s"] / result["peer"]["cpu_s"], 2)
    report = json.load(open(glob.glob(f"{work}/{name}-report/*.json")[0]))
    phases = {}
    for host in report["hosts"]:
        for phase, seconds in host["phases"].items():
            phases[phase] = phases.get(phase, 0) + seconds
    total = sum(phases.values())
    result[name]["phase_share"] = {phase: round(seconds / total, 2) for phase, seconds in phases.items()}
for name, values in result.items():
    print(f"{name:10} wall {values['wall_s']:6.1f} s   CPU {values['cpu_s']:6.2f} s   per host {values['cpu_s_per_host']:.3f} s   {values.get('ratio_to_peer', '')} {values.get('phase_share', '')}")
print(json.dumps({"hosts": hosts, **result}))
PYTHON
