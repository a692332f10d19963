#!/usr/bin/env bash
# The stages of make test-all: all of them, those from one on, or one alone: hack/test-all.sh [FROM [ONLY]]. Each
# that passes is noted in hack/test-all.result, which is committed and which make test quotes: stage, commit, day,
# seconds and flaky tests.
set -euo pipefail
cd "$(dirname "$0")/.."
result=hack/test-all.result
stages=(test-beside-load vet-others race-models krew test-stack test-long soak fuzz)
from=${1:-${stages[0]}} only=${2:-} began='' runs=bin/tests-all
for name in "$from" ${only:+"$only"}; do
  [[ " ${stages[*]} " == *" $name "* ]] || { echo "there is no stage $name; there are ${stages[*]}" >&2; exit 2; }
done
[ -n "$only" ] || [ "$from" != "${stages[0]}" ] || rm -rf "$runs"
mkdir -p "$runs"
report=$PWD/$runs/report
touch "$report"
make --no-print-directory gotest
fuzz=
summary() {
  code=$?
  if [ -n "$fuzz" ] && kill -TERM -- "-$fuzz" 2>/dev/null; then wait "$fuzz" || true; fi
  make --no-print-directory STACK=test down || code=1
  bin/gotest summary "$report" || true
  [ "$code" -eq 0 ] || [ -n "$only" ] || echo "go on with: make test-all FROM=${stage:-$from}" >&2
  exit "$code"
}
trap summary EXIT
trap 'exit 130' INT TERM

run() {
  case $1 in
  test-beside-load) hack/busy.sh make --no-print-directory test && cat bin/tests/report >>"$report" ;;
  test-long | race-models) make --no-print-directory STACK=test REPORT="$report" "$1" ;;
  fuzz) make --no-print-directory FUZZTIME=60s fuzz ;;
  *) make --no-print-directory STACK=test "$1" ;;
  esac
}
export -f run
export report

# note STAGE SECONDS FLAKY replaces what is noted of a stage.
note() {
  {
    grep -sv "^$1 " "$result" || true
    echo "$1 $(git describe --always --dirty) $(date -u +%F) $2 $3"
  } | sort >"$result.new"
  mv "$result.new" "$result"
}

for stage in "${stages[@]}"; do
  [ "$stage" = "$from" ] && began=yes
  [ -n "$began" ] && { [ -z "$only" ] || [ "$stage" = "$only" ]; } || continue
  start=$SECONDS before=$(wc -l <"$report")
  if [ "$stage" = test-long ] && [ -z "$only" ]; then # it waits more than it computes: fuzzing takes what is left
    setsid hack/stage.sh "$report" fuzz bash -euo pipefail -c "run fuzz" >"$runs/fuzz.log" 2>&1 &
    fuzz=$!
  fi
  if [ "$stage" = fuzz ] && [ -n "$fuzz" ]; then
    code=0
    wait "$fuzz" || code=$?
    fuzz=
    cat "$runs/fuzz.log"
    [ "$code" -eq 0 ]
  else
    hack/stage.sh "$report" "$stage" bash -euo pipefail -c "run $stage"
  fi
  flaky=$(tail -n "+$((before + 1))" "$report" | jq -r 'select(.outcome == "flaky") | .test' | sort -u | paste -sd ,)
  note "$stage" $((SECONDS - start)) "${flaky:--}"
done
echo "passed; commit $result" >&2
