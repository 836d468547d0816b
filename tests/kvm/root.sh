#!/bin/bash
# root.sh: makes the root file system of the machine with KVM, a Debian trixie with a kernel, QEMU and what sbx needs, once in
# .cache/kvm for each content of this file. Prints its folder: root/, which has QEMU for this machine too, and disk.img, made of it.
# Its first program mounts the host's folder at /share, and runs init.sh of it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
main=$(cd "$here/../.." && pwd)
key=$(cat "$here/root.sh" "$main/scripts/vsock.sh" | sha256sum | cut -c1-16)
place="$main/.cache/kvm/$key"
[ ! -f "$place/made" ] || { echo "$place"; exit 0; }
[ "$(id -u)" -eq 0 ] || { echo "kvm: making a root file system is root's work" >&2; exit 1; }
echo "kvm: making the machine's root file system in ${place#"$main"/} (four minutes, once)" >&2

# Those of other contents, and an interrupted one.
rm -rf --one-file-system "$main/.cache/kvm"
mkdir -p "$place"
log="$place/log"
trap 'code=$?; [ $code = 0 ] || tail -n 30 "$log" >&2' EXIT
"$main/scripts/vsock.sh" "$place" 2>"$log" >&2
vsock=$(echo "$place"/vhost-device-vsock_*.deb)

packages=linux-image-amd64,initramfs-tools,kmod,procps,mount,util-linux,passwd,sudo,iproute2,ca-certificates,bsdutils
packages=$packages,qemu-system-x86,virtiofsd,uidmap,e2fsprogs,openssh-client,git,python3-minimal
# The machine's own mirror, of whatever suite.
mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
# What the kernel needs to reach its disk, and no more: the initial file system is unpacked at every start.
# shellcheck disable=SC2016
mmdebstrap --quiet --variant=apt --dpkgopt=force-unsafe-io --aptopt='Acquire::Min-ValidTime "15552000"' \
  --aptopt='Apt::Install-Recommends "false"' --include="$packages" \
  --customize-hook="copy-in '$vsock' /tmp" --customize-hook='chroot "$1" sh -c "dpkg -i /tmp/*.deb; rm /tmp/*.deb"' \
  --customize-hook='echo MODULES=list >"$1/etc/initramfs-tools/conf.d/sbx"' \
  --customize-hook='printf "%s\n" virtio_pci virtio_blk ext4 crc32c >>"$1/etc/initramfs-tools/modules"' \
  --customize-hook='chroot "$1" update-initramfs -u' \
  --customize-hook='for user in with without; do chroot "$1" useradd --create-home --shell /bin/bash "$user"; done' \
  --customize-hook='chroot "$1" usermod --append --groups kvm with' \
  --customize-hook='rm -rf "$1"/var/cache/apt/archives/*.deb "$1"/usr/share/doc "$1"/usr/share/locale' \
  trixie "$place/root" ${mirror:+"$mirror"} >>"$log" 2>&1
mkdir -p "$place/root/share"
cat >"$place/root/init-kvm" <<'INIT'
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mountpoint -q /dev || mount -t devtmpfs dev /dev
mount -o remount,rw /
modprobe -a 9pnet_virtio 9p
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none share /share && exec bash /share/init.sh
echo "kvm: the shared folder is missing" >/dev/console
echo o >/proc/sysrq-trigger
sleep 60
INIT
chmod 0755 "$place/root/init-kvm"
truncate -s 16G "$place/disk.img"
# Nothing of a run is kept, so a journal would be of no use.
mke2fs -q -F -t ext4 -E lazy_itable_init=1,nodiscard -O ^has_journal -d "$place/root" "$place/disk.img" >>"$log" 2>&1
touch "$place/made"
echo "$place"
