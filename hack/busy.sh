#!/usr/bin/env bash
# Runs a command beside two processes that do nothing but compute: hack/busy.sh COMMAND…
set -euo pipefail
busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
for _ in 1 2; do
  (while :; do :; done) &
  busy+=("$!")
done
"$@"
