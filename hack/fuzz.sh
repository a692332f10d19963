#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each, goes on after one that fails, and
# ends with a summary. The corpora are committed.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
log=$(mktemp)

# Whether Go took the end of the time for a failure, which it does at times before 1.27
# (https://go.dev/issue/75804): it says nothing else then, and no input is written.
only_time_ended() {
  local said
  said=$(grep -vE '^(fuzz: |exit status 1$|FAIL(\s|$))' "$log")
  [[ $said =~ ^"--- FAIL: $1 ("[0-9.]+s\)$'\n    context deadline exceeded'$ ]]
}

trap 'rm -f "$log"' EXIT
summary=() failed=0
while IFS=: read -r file target; do
  echo "== fuzz $target for $time"
  if go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$(dirname "$file")" >"$log" 2>&1 || only_time_ended "$target"; then
    result=ok
  else
    result=FAILED failed=1
    grep -v '^fuzz: elapsed' "$log" || true
  fi
  execs=$(grep -oE 'execs: [0-9]+' "$log" | tail -1 || true)
  summary+=("$(printf '%-28s %-7s %s' "$target" "$result" "$execs")")
done < <(grep -rHoP --include='*_test.go' '^func \KFuzz\w+' . | sort)
echo "== summary"
printf '%s\n' "${summary[@]}"
exit "$failed"
