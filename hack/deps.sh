#!/usr/bin/env bash
# Installs the Debian packages that building and testing need, or names them where it cannot.
# Arguments are further ones, as command:package, or as file:package.
set -euo pipefail
missing=()
for pair in gcc:gcc curl:curl jq:jq git:git "$@"; do
  command -v "${pair%%:*}" >/dev/null || [[ ${pair%%:*} == */* && -e ${pair%%:*} ]] || missing+=("${pair##*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]} (Debian's names); install them and try again" >&2
  exit 1
fi
echo "installing ${missing[*]}" >&2
# Another installation may be under way, a second clone's for example: wait for it.
apt-get -o DPkg::Lock::Timeout=600 update -qq >/dev/null && apt-get -o DPkg::Lock::Timeout=600 install -y -qq "${missing[@]}" >/dev/null
