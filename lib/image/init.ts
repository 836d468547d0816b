import { GUEST_NETWORK } from "../guest/wire/mod.ts";
import { MODULES_PATH } from "./network.ts";

const { interface: dummy, ipv4, ipv6 } = GUEST_NETWORK;

/**
 * `/init` of the initrd: PID 1 of the guest, run by busybox. It mounts the root file system, starts
 * sbx-pty-agent in it, and reaps orphans for the life of the VM.
 *
 * Its cost is part of every boot, and under emulation a fork takes 10 ms. Mounts the agent does not need to
 * start (workspace, pseudo-terminals, loopback) run beside it, and the agent waits for `/run/sbx/mounted`
 * before it sends `BootReady`. Network modules and sbx-net-proxy take as long again: they wait until the
 * agent writes to `/run/sbx/booted`. Kernel parameters arrive as environment: `sbx_floor` powers off at once
 * (the floor benchmarks compare with), `sbx_scratch` names the disk for the guest's writes, `sbx_v8_flags`
 * adapts the agent to the accelerator. Commands without a path are busybox applets, which its shell runs
 * without an exec; that needs /proc. Modules are `/modules/<group><order>-<name>.ko`; the root file system
 * needs group 1.
 */
export const INIT = `#!/bin/busybox sh
b=/bin/busybox
[ -n "$sbx_floor" ] && $b reboot -f

stage() { read -r up _ </proc/uptime; stages="$stages$1 $up
"; }
die() { echo "sbx-init: $1" >/dev/console; $b reboot -f; }

$b mount -t proc proc /proc
stage kernel
for m in /modules/1*.ko; do insmod $m || die "cannot load module $m"; done
mount -t devtmpfs dev /dev
(for m in /modules/2*.ko; do insmod $m || die "cannot load module $m"; done) &
modules=$!
stage modules

tries=0
until [ -b /dev/vda ]; do
  tries=$((tries + 1)); [ $tries -gt 2000 ] && die "the root disk did not appear"
  usleep 5000
done
mount -t erofs -o ro /dev/vda /lower || die "cannot mount the root file system"
# Read Deno's pages ahead, in parallel; faulting them in one by one takes longer.
cat /lower/usr/bin/deno >/dev/null &
if [ -n "$sbx_scratch" ]; then
  mount -t ext4 -o noatime $sbx_scratch /upper || die "cannot mount the scratch disk"
else
  mount -t tmpfs -o mode=0755 scratch /upper
fi
[ -d /upper/data ] || mkdir -p /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work root /new || die "cannot mount the overlay"
mount -t tmpfs -o mode=0755 run /new/run
mkdir -p /new/run/sbx
mount -t devtmpfs dev /new/dev
mount -t proc proc /new/proc
stage rootfs

# This shell's root stays the empty initramfs under the moved mount: from here on, paths of the guest are relative.
cd /new
mount --move . /
printf '%s' "$stages" >./run/sbx/stages
deno="env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DENO_DIR=/run/sbx/deno \\
  DENO_NO_UPDATE_CHECK=1 $b chroot . /usr/bin/deno run -A --unstable-vsock --unstable-net --no-config --no-lock \\
  --no-remote --no-npm --quiet \${sbx_v8_flags:+--v8-flags=$sbx_v8_flags}"
$deno /usr/lib/sbx/sbx-pty-agent.js &
agent=$!
mkfifo ./run/sbx/booted

wait $modules
mount -t virtiofs workspace ./workspace || echo "sbx-init: cannot mount the workspace" >/dev/console
mkdir -p ./dev/pts ./dev/shm
mount -t devpts -o gid=5,mode=0620,ptmxmode=0666 devpts ./dev/pts
mount -t tmpfs -o mode=1777 shm ./dev/shm
mount -t sysfs sys ./sys
ln -sfn /proc/self/fd ./dev/fd
ifconfig lo 127.0.0.1 up
hostname sbx
read -r m <.${MODULES_PATH}
insmod ./$m || echo "sbx-init: cannot load the network module" >/dev/console
# Without this the kernel would solicit routers, and each packet would be refused and recorded.
echo 0 >./proc/sys/net/ipv6/conf/${dummy}/router_solicitations
ifconfig ${dummy} ${ipv4} netmask 255.255.255.255 up
route add default dev ${dummy}
ip -6 addr add ${ipv6}/128 dev ${dummy}
ip -6 route add default dev ${dummy}
echo >./run/sbx/mounted

(
  read -r m <./run/sbx/booted
  # The VM's first program has priority; a short one has ended by then.
  usleep 300000
  while read -r m; do insmod ./$m 2>/dev/null; done <.${MODULES_PATH}
  # Connections stay in the table for two minutes after their end, and a full table drops packets. A half-closed
  # connection must not expire while it waits for its answer.
  echo 65536 >./proc/sys/net/netfilter/nf_conntrack_max
  echo 3600 >./proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait
  while :; do $deno /usr/lib/sbx/sbx-net-proxy.js; sleep 1; done
) &

wait $agent || die "sbx-pty-agent ended"
$b reboot -f
`;
