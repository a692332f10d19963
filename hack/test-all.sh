#!/usr/bin/env bash
# The stages of make test-all, or those from one on: hack/test-all.sh [STAGE]. A run of all of them that
# passes is noted in hack/test-all.result, which is committed, and of which make test says how old it is.
set -euo pipefail
cd "$(dirname "$0")/.."
result=hack/test-all.result
stages=(test-beside-load vet-others test-stack test-long soak fuzz)
from=${1:-${stages[0]}} began=
start=$SECONDS runs=bin/tests-all
[[ " ${stages[*]} " == *" $from "* ]] || { echo "there is no stage $from; there are ${stages[*]}" >&2; exit 2; }
[ "$from" != "${stages[0]}" ] || rm -rf "$runs"
mkdir -p "$runs"
report=$PWD/$runs/report
make --no-print-directory gotest
summary() {
  code=$?
  make --no-print-directory STACK=test down || code=1
  bin/gotest summary "$report" || true
  [ "$code" -eq 0 ] || echo "go on with: make test-all FROM=${stage:-$from}" >&2
  exit "$code"
}
trap summary EXIT
trap 'exit 130' INT TERM

run() {
  case $1 in
  test-beside-load) hack/busy.sh make --no-print-directory test && cat bin/tests/report >>"$report" ;;
  test-long) make --no-print-directory STACK=test REPORT="$report" test-long ;;
  fuzz) make --no-print-directory FUZZTIME=60s fuzz ;;
  *) make --no-print-directory STACK=test "$1" ;;
  esac
}
export -f run
export report
for stage in "${stages[@]}"; do
  [ "$stage" = "$from" ] && began=yes
  [ -n "$began" ] || continue
  hack/stage.sh "$report" "$stage" bash -euo pipefail -c "run $stage"
done
if [ "$from" = "${stages[0]}" ]; then
  {
    printf 'commit %s\ndate %s\nseconds %d\n' "$(git rev-parse --short HEAD)" "$(date -u +%F)" $((SECONDS - start))
    jq -r 'select(.outcome == "flaky") | "flaky \(.test)"' "$report" | sort
  } >"$result"
  echo "all passed; commit $result" >&2
fi
