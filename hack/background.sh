#!/usr/bin/env bash
# Runs a command for which all else goes first: hack/background.sh COMMAND…
#
# nice alone does not do that. Linux shares the processor between sessions (sched_autogroup), and only within one does
# it ask for the niceness: the servers of a local stack, a session each, would get no more than a linter. So the command
# has a session of its own, whose share is the smallest. Once the file $FOREGROUND is there it is like any other.
set -euo pipefail
share=19
[ ! -e "${FOREGROUND:-/nonexistent}" ] || share=0
setsid bash -c 'echo "$0" 2>/dev/null >/proc/self/autogroup || true; exec nice -n 19 "$@"' "$share" "$@" &
child=$!
trap 'kill -TERM -- "-$child" 2>/dev/null || true' INT TERM
code=0
wait "$child" || code=$?
if kill -0 "$child" 2>/dev/null; then # a signal came: the command has it by now
  code=0
  wait "$child" || code=$?
fi
exit "$code"
