#!/bin/bash
# root.sh SUITE SHARED COMMAND…: runs a command as root in a clean Debian, of which nothing stays, with the folder SHARED in /mnt.
# The clean Debian is made once in .cache/package-roots.
set -euo pipefail
main=$(cd "$(dirname "$0")/../.." && pwd)
suite=$1 shared=$(cd "$2" && pwd)
shift 2
place="$main/.cache/package-roots/$suite"
if [ ! -f "$place/made" ]; then
  rm -rf "$place"
  mkdir -p "$place"
  mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
  # A mirror may lag, and a clock be wrong.
  mmdebstrap --quiet --variant=apt --aptopt='Acquire::Min-ValidTime "15552000"' \
    --include=passwd,init-system-helpers,procps,ca-certificates "$suite" "$place/root" ${mirror:+"$mirror"}
  touch "$place/made"
fi
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
  [ ! -r "$file" ] || install -D -m 0644 "$file" "$place/root$file"
done
layer=$(mktemp -d "$place/layer.XXXXXX")
trap 'rm -rf "$layer"' EXIT
mkdir "$layer"/{upper,work,root}
# A chroot is not enough: virtiofsd's sandbox pivots, and needs a mounted root.
unshare --mount --propagation private bash -euc '
  lower=$1 layer=$2 shared=$3
  shift 3
  mount -t overlay overlay -o "lowerdir=$lower,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
  root=$layer/root
  for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
  mount -t tmpfs tmpfs "$root/tmp"
  chmod 1777 "$root/tmp"
  mount --bind "$shared" "$root/mnt"
  mkdir -p "$root/.old"
  cd "$root"
  pivot_root . .old
  # umount2(/.old, MNT_DETACH) of x86_64.
  perl -e "\$old = q(/.old); syscall(166, \$old, 2) == 0 or die \$!"
  rmdir /.old
  cd /
  exec env -i HOME=/root TERM=dumb LANG=C.UTF-8 NO_COLOR=1 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
' root "$place/root" "$layer" "$shared" "$@"
