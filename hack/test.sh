#!/usr/bin/env bash
# The stages of make test. Each prints what it does at least every 30 seconds; a summary ends them. What a
# stack consists of is built beside the unit tests, which go first: on a machine that has nothing, that
# takes a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=bin/tests
rm -rf "$runs" && mkdir -p "$runs"
export REPORT=$PWD/$runs/report STACK=test FOREGROUND=$PWD/$runs/foreground
stage() { hack/stage.sh "$REPORT" "$1" make --no-print-directory "${@:2}"; }

# How old the newest pass of each stage of make test-all is.
for stage in $(sed -n 's/^stages=(\(.*\))$/\1/p' hack/test-all.sh); do
  noted=$(awk -v stage="$stage" '$1 == stage' hack/test-all.result 2>/dev/null || true)
  if [ -n "$noted" ]; then
    read -r _ commit day seconds flaky <<<"$noted"
    echo "make test-all: $stage passed $((($(date +%s) - $(date -d "$day" +%s)) / 86400)) days ago, at $commit, in $seconds s, flaky: $flaky" >&2
  else
    echo "make test-all: $stage has not passed yet" >&2
  fi
done

parts=
finish() {
  code=$?
  if [ -n "$parts" ] && kill -TERM -- "-$parts" 2>/dev/null; then wait "$parts" || true; fi
  if [ -x bin/gotest ]; then bin/gotest summary "$REPORT" || true; fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# foreground gives what hack/background.sh runs below a process the same share of the processor as everything else: nothing is
# left to do beside it, and with the smallest share it would stand still on a machine that does something else too.
foreground() {
  touch "$FOREGROUND" # what begins from now on
  ps -eo pid=,ppid= | awk -v root="$1" '{ of[$1] = $2 }
    END { for (pid in of) for (at = pid; at in of; at = of[at]) if (at == root) { print pid; break } }' |
    while read -r pid; do echo 0 2>/dev/null >"/proc/$pid/autogroup" || true; done
}

# A run that was killed has left its stack and its provider, whose controllers would work beside those of this run.
stage leftover down
stage packages deps fronts shells browser
setsid hack/stage.sh "$REPORT" parts make --no-print-directory parts & # a group of its own, to be ended whole
parts=$!
stage unit test-unit
foreground "$parts"
wait "$parts" || { parts='' && exit 1; }
parts=''
stage up up
stage integration test-integration
stage e2e test-e2e
stage down down
