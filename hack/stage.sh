#!/usr/bin/env bash
# Runs a stage of the suite and appends how long it took to the report: hack/stage.sh REPORT NAME COMMAND…
set -euo pipefail
report=$1 name=$2 start=$SECONDS code=0
shift 2
echo "== $name" >&2
"$@" || code=$?
outcome=pass
[ "$code" -eq 0 ] || outcome=fail
mkdir -p "$(dirname "$report")"
printf '{"stage":"%s","package":"","outcome":"%s","seconds":%d}\n' "$name" "$outcome" $((SECONDS - start)) >>"$report"
exit "$code"
