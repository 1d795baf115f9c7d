#!/usr/bin/env bash
# Breaks transfers to Windows hosts in every way: tests/chaos.sh CUTS [-seed NUMBER] [-only CASE,...]; CUTS is how often the line is cut on each
# transport. Needs root, `make build`, `make payload`, `make setup` and the sandbox's programs; starts and ends a sandbox of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
SANDBOX_HOSTS=2 SANDBOX_SUBNET=10.91.0.0/24
export SANDBOX_WINRM=2
# shellcheck source=tests/sandbox.sh
source tests/sandbox.sh
cuts=${1:-20}
(($# == 0)) || shift
go build -o "$work/chaos" ./tests/chaos
start_sandbox
"$work/chaos" -sandbox "$SANDBOX_DIR" -cuts "$cuts" "$@"
