#!/bin/bash
# trixie.sh COMMAND…: runs a command as root in a Debian trixie of its own, made once in .cache/trixie, with this checkout in
# /src/main. What it changes there stays; the machine's own files, but for the checkout, are out of its reach.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
trixie="$root/.cache/trixie"
[ "$(id -u)" -eq 0 ] || { echo "trixie: entering another root file system is root's work" >&2; exit 1; }

# Packages that the README asks for: everything else is the work of `make deps`.
if [ ! -f "$trixie/made" ]; then
  rm -rf "$trixie"
  mkdir -p "$trixie"
  # The machine's own mirror, of whatever suite.
  mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
  mmdebstrap --quiet --variant=apt --include=make,nodejs,npm,git,ca-certificates,procps,sudo trixie "$trixie/root" ${mirror:+"$mirror"}
  touch "$trixie/made"
fi

# What this machine knows about its network: resolver, certificates, npm's registry.
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt "$HOME/.npmrc" /etc/npmrc /usr/etc/npmrc; do
  [ ! -r "$file" ] || install -D -m 0644 "$file" "$trixie/root${file/#$HOME//root}"
done

# A chroot is not enough: virtiofsd's sandbox pivots, and needs a mounted root.
exec unshare --mount --propagation private bash -euc '
  root=$1 main=$2
  shift 2
  mount --bind "$root" "$root"
  for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
  mkdir -p "$root/src/main" "$root/.old"
  mount --bind "$main" "$root/src/main"
  cd "$root"
  pivot_root . .old
  # umount2(/.old, MNT_DETACH) of x86_64: there is no umount yet.
  perl -e "\$old = q(/.old); syscall(166, \$old, 2) == 0 or die \$!"
  cd /src/main
  exec env -i HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
' trixie "$trixie/root" "$root" "$@"
