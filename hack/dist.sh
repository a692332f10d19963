#!/usr/bin/env bash
# Builds what a release has: an archive of the command line for each platform, their hashes, and krew's manifest, in
# dist/. The commit that is checked out has to be a tag: v1.2.0. PLATFORMS="linux/amd64" builds for some; VERSION
# names another version, to try it, and DIST an empty directory for it.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
version=${VERSION:-$(hack/version.sh)}
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}
dist=${DIST:-$PWD/dist}
[ -n "${DIST:-}" ] || rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The same bytes for the same commit.
date=$(git log -1 --format=%cI 2>/dev/null || echo 1970-01-01T00:00:00Z)
for platform in $platforms; do
  os=${platform%/*} arch=${platform#*/}
  program=sandbar
  [ "$os" = windows ] && program=sandbar.exe
  rm -rf "$work/files" && mkdir "$work/files"
  GOOS=$os GOARCH=$arch CGO_ENABLED=0 "$go" build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version" -o "$work/files/$program" ./cmd/sandbar
  cp LICENSE "$work/files/"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$date" -C "$work/files" -cf - LICENSE "$program" |
    gzip -n9 >"$dist/sandbar_${version}_${os}_${arch}.tar.gz"
  echo "built $dist/sandbar_${version}_${os}_${arch}.tar.gz" >&2
done
(cd "$dist" && sha256sum ./*.tar.gz >checksums.txt)
"$go" -C hack/krew run . "$version" "$dist" >"$work/sandbar.yaml"
mv "$work/sandbar.yaml" "$dist/sandbar.yaml"
echo "built $dist/sandbar.yaml: kubectl krew install --manifest=$dist/sandbar.yaml --archive=ARCHIVE tries it" >&2
