#!/bin/sh
# vsock.sh DIR [ARCH]: fetches vhost-device-vsock from Debian sid into DIR, for the machine's architecture or another one of
# Debian. An apt of its own does it, verified by Debian's archive keyring; no source is left on the machine.
set -eu
out=$1 arch=${2:-$(dpkg --print-architecture)}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keyring" ] || { echo "vsock: $keyring is missing; apt-get install debian-archive-keyring" >&2; exit 1; }
mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
[ -n "$mirror" ] || mirror=$(apt-get update --print-uris | sed -n "s/^'\(.*\)dists\/.*/\1/p" | head -n 1)
[ -n "$mirror" ] || { echo "vsock: this machine's apt knows no Debian archive; add a mirror to /etc/apt/sources.list.d" >&2; exit 1; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$work/lists/partial" "$work/archives/partial"
: >"$work/status"
echo "deb [signed-by=$keyring] $mirror sid main" >"$work/sources.list"
cat >"$work/apt.conf" <<EOF
APT::Architecture "$arch";
APT::Architectures "$arch";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
// A mirror may lag, and a clock be wrong: sid's week of validity is stretched to half a year, not given up.
Acquire::Min-ValidTime "15552000";
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::Etc::PreferencesParts "-";
Dir::State "$work";
Dir::State::Lists "$work/lists";
Dir::State::Status "$work/status";
Dir::Cache "$work";
Dir::Cache::Archives "$work/archives";
Dir::Cache::PkgCache "";
Dir::Cache::SrcPkgCache "";
EOF
fetch() { (cd "$work" && apt-get -q -c "$work/apt.conf" "$@" >"$work/log" 2>&1) || { sed 's/^/  /' "$work/log" | tail -n 20 >&2; exit 1; }; }
fetch update
fetch download vhost-device-vsock
mv "$work"/vhost-device-vsock_*.deb "$out/"
