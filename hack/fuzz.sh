#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each; the corpora are committed.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
grep -rl --include='*_test.go' '^func Fuzz' . | grep -v '^./hack/' | xargs -n1 dirname | sort -u | while read -r pkg; do
  grep -rhoP --include='*_test.go' '^func \KFuzz\w+' "$pkg" --no-recursive 2>/dev/null || grep -hoP '^func \KFuzz\w+' "$pkg"/*_test.go
done | sort -u | while read -r target; do
  pkg=$(dirname "$(grep -rl --include='*_test.go' "^func $target(" . | head -1)")
  echo "== $pkg $target for $time"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$pkg"
done
