#!/bin/bash
# root.sh SUITE COMMAND…: runs a command as root in a Debian of its own (bookworm, trixie, sid), made once in .cache/roots, with
# this checkout in /src/main. What it changes there stays; the machine's own files, but for the checkout, are out of its reach.
set -euo pipefail
main=$(cd "$(dirname "$0")/.." && pwd)
suite=${1:?usage: root.sh SUITE COMMAND…}
shift
place="$main/.cache/roots/$suite"
root="$place/root"
[ "$(id -u)" -eq 0 ] || { echo "root: entering another root file system is root's work" >&2; exit 1; }

# A small system: everything else is the work of scripts/deps.sh.
if [ ! -f "$place/made" ]; then
  # An interrupted one may still have folders of this machine mounted.
  rm -rf --one-file-system "$place"
  mkdir -p "$place"
  # The machine's own mirror, of whatever suite.
  mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
  # Nothing in it outlives a power cut, so dpkg does not wait for the disk.
  # A mirror may lag, and a clock be wrong: sid's week of validity is stretched to half a year, not given up.
  mmdebstrap --quiet --variant=apt --dpkgopt=force-unsafe-io --aptopt='Acquire::Min-ValidTime "15552000"' \
    --include=git,ca-certificates,passwd,procps "$suite" "$root" ${mirror:+"$mirror"}
  touch "$place/made"
fi

# What this machine knows about its network: resolver, certificates, npm's registry.
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt "$HOME/.npmrc" /etc/npmrc /usr/etc/npmrc; do
  [ ! -r "$file" ] || install -D -m 0644 "$file" "$root${file/#$HOME//root}"
done

# A chroot is not enough: virtiofsd's sandbox pivots, and needs a mounted root.
exec unshare --mount --propagation private bash -euc '
  root=$1 main=$2
  shift 2
  mount --bind "$root" "$root"
  for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
  mkdir -p "$root/src/main" "$root/.old"
  mount --bind "$main" "$root/src/main"
  # The toolchain of a worktree may be a link to that of another checkout.
  tools=$(readlink -f "$main/.deno" || true)
  case "$tools" in "" | "$main"/*) ;; *) [ ! -d "$tools" ] || { mkdir -p "$root$tools"; mount --bind "$tools" "$root$tools"; } ;; esac
  cd "$root"
  pivot_root . .old
  # umount2(/.old, MNT_DETACH) of x86_64: there is no umount yet.
  perl -e "\$old = q(/.old); syscall(166, \$old, 2) == 0 or die \$!"
  cd /src/main
  exec env -i ${SBX_TEST_RUN:+SBX_TEST_RUN="$SBX_TEST_RUN"} HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
' root "$root" "$main" "$@"
