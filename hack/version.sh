#!/usr/bin/env bash
# Prints the version that the binaries of this checkout have: the last tag, or how far the commit is behind it
# (v1.2.0-3-g0123abc), with -dirty for files that are not committed; "dev" outside of a git checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
# Sources that were unpacked inside another repository do not have its version.
if [ -e .git ] && version=$(git describe --tags --always --dirty 2>/dev/null); then
  echo "$version"
else
  echo dev
fi
