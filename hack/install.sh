#!/usr/bin/env bash
# Builds sandbar and puts it into a directory of the PATH, also under the name by which kubectl finds
# it as its plugin. The argument is the directory; by default it is Go's own for programs, and
# /usr/local/bin for root.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
dir=${1:-}
if [ -z "$dir" ] && [ "$(id -u)" -eq 0 ]; then
  dir=/usr/local/bin
elif [ -z "$dir" ]; then
  dir=$("$go" env GOBIN)
  dir=${dir:-$("$go" env GOPATH)/bin}
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
# A file that is replaced by a rename can be running.
CGO_ENABLED=0 "$go" build -trimpath -ldflags "-s -w -X main.version=$(hack/version.sh)" \
  -o "$dir/.sandbar.new" ./cmd/sandbar
mv -f "$dir/.sandbar.new" "$dir/sandbar"
ln -sfn sandbar "$dir/kubectl-sandbar"
echo "installed $dir/sandbar and $dir/kubectl-sandbar" >&2
case ":$PATH:" in
*":$dir:"*) ;;
*) echo "$dir is not in your PATH; add it: export PATH=\"$dir:\$PATH\"" >&2 ;;
esac
