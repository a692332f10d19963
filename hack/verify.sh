#!/usr/bin/env bash
# Fails when a generated file differs from what its source generates, or a go.mod is not tidy.
# Works on a copy, so that it changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - --ignore-failed-read 2>/dev/null | tar xf - -C "$copy"
cd "$copy"
git init -q . && git add -A && git -c user.name=verify -c user.email=verify@localhost commit -qm before
echo "== verify: generated files" >&2
make --no-print-directory generate
for m in . hack/stack; do
  echo "== verify: go.mod of $m" >&2
  (cd "$m" && GONOSUMDB='github.com/kcp-dev/*' GOFLAGS=-mod=mod go mod tidy 2>/dev/null)
done
if ! git diff --exit-code --stat; then
  echo "stale: run 'make generate' and 'go mod tidy', and commit what changes" >&2
  exit 1
fi
