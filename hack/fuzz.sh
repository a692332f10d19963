#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each; the corpora are committed.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
grep -rHoP --include='*_test.go' '^func \KFuzz\w+' . | sort | while IFS=: read -r file target; do
  echo "== fuzz $target for $time"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$(dirname "$file")" | grep -v '^fuzz: '
done
