#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each, as many at once as there are processors,
# goes on after one that fails, and ends with a summary. The corpora are committed.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Whether Go took the end of the time for a failure, which it does at times before 1.27
# (https://go.dev/issue/75804): it says nothing else then, and no input is written.
only_time_ended() {
  local said
  said=$(grep -vE '^(fuzz: |exit status 1$|FAIL(\s|$))' "$out/$1.log")
  [[ $said =~ ^"--- FAIL: $1 ("[0-9.]+s\)$'\n    context deadline exceeded'$ ]]
}

fuzz() {
  local file=$1 target=$2 result=ok execs
  echo "== fuzz $target for $time"
  if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel 1 "$(dirname "$file")" >"$out/$target.log" 2>&1 && ! only_time_ended "$target"; then
    result=FAILED
    grep -v '^fuzz: elapsed' "$out/$target.log" || true
  fi
  execs=$(grep -oE 'execs: [0-9]+' "$out/$target.log" | tail -1 || true)
  printf '%-28s %-7s %s\n' "$target" "$result" "$execs" >"$out/$target.result"
}

free=$(nproc)
while IFS=: read -r file target; do
  if [ "$free" -eq 0 ]; then wait -n; else free=$((free - 1)); fi
  fuzz "$file" "$target" </dev/null &
done < <(grep -rHoP --include='*_test.go' '^func \KFuzz\w+' . | sort)
wait
echo "== summary"
cat "$out"/*.result
! grep -q FAILED "$out"/*.result
