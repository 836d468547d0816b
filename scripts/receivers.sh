#!/bin/sh
# Fetches Debian's rsyslog and syslog-ng into .cache/receivers, as receivers of the tests of feeds. They are not installed: each is
# a machine's log daemon, and they exclude each other. Silent when they are there.
set -eu
cd "$(dirname "$0")/.."
into=$PWD/.cache/receivers
[ ! -e "$into/usr/sbin/rsyslogd" ] || exit 0

daemons="rsyslog rsyslog-openssl syslog-ng-core"
# Their libraries that this machine has not.
libraries=$(for daemon in $daemons; do apt-cache depends --important "$daemon"; done | sed -n 's/^ *|*Depends: \(lib[^ ]*\)$/\1/p' |
  sort -u | while read -r library; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$library" 2>/dev/null | grep -q '^.i' || echo "$library"
  done)

mkdir -p .cache
work=$(mktemp -d .cache/receivers.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
echo "receivers: fetching rsyslog and syslog-ng for tests"
mkdir "$work/packages" "$work/root"
# Names of packages hold no spaces.
# shellcheck disable=SC2086
(cd "$work/packages" && apt-get -q download $daemons $libraries >../log 2>&1) || {
  sed 's/^/  /' "$work/log" >&2
  echo "receivers: fetching packages failed" >&2
  echo "  is Debian's archive reachable? sudo apt-get update should work" >&2
  exit 1
}
for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/root"; done
# Two at once: the first one's stays.
mv -T "$work/root" "$into" 2>/dev/null || [ -e "$into/usr/sbin/rsyslogd" ]
