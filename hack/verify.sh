#!/usr/bin/env bash
# Fails when a generated file differs from what its source generates, or a go.mod is not tidy,
# and shows the difference. Arguments are the modules' folders. Works on a copy, so that it
# changes nothing; needs the network only for modules that the module cache lacks.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - --ignore-failed-read 2>/dev/null | tar xf - -C "$copy"
cd "$copy"
git init -q . && git add -A && git -c user.name=verify -c user.email=verify@localhost commit -qm before
stale=0

echo "== verify: generated files" >&2
make --no-print-directory generate
# So that a generated file whose source is new counts too.
git add -A
if ! git --no-pager diff --cached --exit-code; then
  echo "stale: run 'make generate' and commit what changes" >&2
  stale=1
fi

for m in "$@"; do
  echo "== verify: go.mod of $m" >&2
  if ! GONOSUMDB='github.com/kcp-dev/*' go -C "$m" mod tidy -diff; then
    echo "stale: run 'go mod tidy' in $m (GONOSUMDB='github.com/kcp-dev/*') and commit what changes" >&2
    stale=1
  fi
done
exit "$stale"
