#!/usr/bin/env bash
# Runs every fuzz test of the repository for a while each: scripts/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
while IFS=: read -r file name; do
  name=${name#func }
  echo "$(dirname "$file") $name"
  go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$(dirname "$file")" | tail -n 1
done < <(grep -roE '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' cmd internal modules)
