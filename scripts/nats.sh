#!/bin/sh
# nats.sh FOLDER: unpacks Debian's nats-server into FOLDER, once, for `make test-fleet`. Needs no root: nothing is installed.
set -eu
folder=$1
[ ! -x "$folder/usr/sbin/nats-server" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get -q download nats-server >log 2>&1) || {
  echo "nats: fetching Debian's nats-server failed" >&2
  sed 's/^/  /' "$work/log" >&2
  echo "  is Debian's archive reachable? sudo apt-get update should work" >&2
  exit 1
}
mkdir -p "$folder"
dpkg-deb -x "$work"/nats-server_*.deb "$folder"
