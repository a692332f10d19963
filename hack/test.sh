#!/usr/bin/env bash
# The stages of make test. Each prints what it does at least every 30 seconds; a summary ends them. What a
# stack consists of is built beside the unit tests, which go first: on a machine that has nothing, that
# takes a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=bin/tests
rm -rf "$runs" && mkdir -p "$runs"
export REPORT=$PWD/$runs/report STACK=test
stage() { hack/stage.sh "$REPORT" "$1" make --no-print-directory "${@:2}"; }

if [ -e hack/test-all.result ]; then
  noted=$(awk '$1 == "date" {print $2}' hack/test-all.result)
  echo "make test-all last passed $((($(date +%s) - $(date -d "$noted" +%s)) / 86400)) days ago: $(paste -sd ' ' hack/test-all.result)" >&2
else
  echo "make test-all has not passed yet" >&2
fi

parts=
finish() {
  code=$?
  if [ -n "$parts" ] && kill -TERM -- "-$parts" 2>/dev/null; then wait "$parts" || true; fi
  if [ -x bin/gotest ]; then bin/gotest summary "$REPORT" || true; fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

stage packages deps fronts browser
setsid hack/stage.sh "$REPORT" parts make --no-print-directory parts & # a group of its own, to be ended whole
parts=$!
stage unit test-unit
wait "$parts" || { parts='' && exit 1; }
parts=''
stage up up
stage integration test-integration
stage e2e test-e2e
stage down down
