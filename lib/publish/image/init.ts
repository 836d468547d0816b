/**
 * `/init`, the program that the guest's kernel starts, as a shell script. {@linkcode INIT} has it in the
 * order of a boot; functions that it calls for the trace and for the root file system stand before it.
 */
import {
  BUFFER_KIB,
  CLOCK,
  EVENTS,
  FILTERS,
  INSTANCE,
  OWNER_PROBES,
  PROBES,
  type TraceEvent,
  TRACING,
} from "../../machine/guest/trace/mod.ts";
import { COMMANDS_PATH, GUEST_NETWORK, LAYER_PATH, RUNTIMES_PATH } from "../../machine/guest/wire/mod.ts";
import { FLOOR_READY, PORT_ADDRESS, SCRATCH_OPTIONS, TEMPLATE_READY } from "../../machine/vm/mod.ts";
import { DOCKER_PATH, RUNTIMES } from "./docker.ts";
import { HELD_FILES_MAX, KEEPER_PATH } from "./keeper.ts";
import { HOSTS, MODPROBE_PATH, MODULES_PATH, RESOLV_CONF } from "./network.ts";

/**
 * Functions of `/init` that prepare the kernel's trace of programs, without starting it. `trace_events`
 * changes the kernel's code, and runs before an emulated guest has a second processor
 * (cmd/guest/activity/trace.ts); `trace_buffer` mostly waits. If either fails, sbx-activity prepares the
 * trace itself, later.
 */
const TRACE_FUNCTIONS = `trace_events() {
  mount -t tracefs tracefs ${TRACING} && mkdir ${INSTANCE} || return
  echo 0 >${INSTANCE}/tracing_on
${PROBES.map(defined).join("\n")}
  ${OWNER_PROBES.map(defined).join(" ||\n  ").trimStart()}
  for event in ${Object.values(EVENTS).join(" ")}; do echo 1 >${INSTANCE}/events/$event/enable; done
}
trace_buffer() {
  [ -d ${INSTANCE} ] || return
${
  Object.entries(FILTERS).map(([name, filter]) =>
    `  echo '${filter}' >${INSTANCE}/events/${EVENTS[name as TraceEvent]}/filter`
  ).join("\n")
}
  echo ${CLOCK} >${INSTANCE}/trace_clock
  echo ${BUFFER_KIB} >${INSTANCE}/buffer_size_kb
  # Readers are woken for any record, not when half of the buffer is full.
  echo 0 >${INSTANCE}/buffer_percent
}`;

function defined(probe: string): string {
  return `  echo '${probe}' >>${TRACING}/dynamic_events`;
}

/**
 * Options of the overlay. A VM's disk outlives its image, and the kernel accepts another lower layer only
 * without these features, and if that layer has no UUID (Documentation/filesystems/overlayfs.rst, "Changes to
 * underlying filesystems").
 */
const OVERLAY_OPTIONS = "index=off,metacopy=off,redirect_dir=off,xino=off";

/** PCI address of the port that a copy's vsock is plugged into. */
const VSOCK_PORT = `0000:00:${PORT_ADDRESS.vsock.slice(2)}.0`;

const { interface: dummy, ipv4, ipv6, resolver } = GUEST_NETWORK;

/** Text as an argument of printf in single quotes. */
const quoted = (text: string) => `'${text.replaceAll("\n", "\\n")}'`;

/**
 * Functions of `/init` that find a disk, and complete a root file system. That may be of any image, so it is
 * hostile: no link in it is followed, and nothing is used that it has at {@linkcode LAYER_PATH} or in place
 * of a mount point.
 */
const ROOT_FUNCTIONS =
  `# disk NAME: sets $found to the device with this serial number. A Mac's disks have none, and an order.
disk() {
  found=
  for d in /sys/block/vd*; do
    serial=
    read -r serial <$d/serial
    [ "$serial" != $1 ] || found=/dev/\${d##*/}
  done 2>/dev/null
  [ -n "$found" ] || [ -z "$sbx_hvc" ] || case $1 in
    layer) found=/dev/vdb ;;
    scratch) found=/dev/vdc ;;
    before) found=/dev/vdd ;;
  esac
}
# awaited NAME: the same of a disk that is there, or will be in a moment.
awaited() {
  tries=0
  until disk $1; [ -b "$found" ]; do
    tries=$((tries + 1)); [ $tries -gt $((2000 * \${factor:-1})) ] && die "the $1 disk did not appear"
    usleep 5000
  done
}
# furnish ROOT: a fork takes 10 ms under emulation, and a usual root file system needs none here.
furnish() {
  for p in usr usr/lib etc; do [ ! -L $1/$p ] || die "the root file system has a link in place of /$p"; done
  for p in usr usr/lib ${LAYER_PATH.slice(1)} etc dev proc sys run mnt root workspace tmp; do
    [ -d $1/$p ] && [ ! -L $1/$p ] && continue
    rm -f $1/$p
    mkdir $1/$p || die "cannot make /$p in the root file system"
    [ $p != tmp ] || chmod 1777 $1/tmp
  done
  # A link would lead out of the root file system, and a pipe would wait for a reader.
  for p in resolv.conf hosts hostname machine-id passwd group; do
    p=$1/etc/$p
    if [ -L $p ]; then rm -f $p; elif [ -e $p ] && [ ! -f $p ]; then rm -rf $p; fi
  done
  line=
  read -r line <$1/etc/resolv.conf
  [ "$line" = "nameserver ${resolver}" ] || printf ${quoted(RESOLV_CONF)} >$1/etc/resolv.conf
  [ -s $1/etc/hosts ] || printf ${quoted(HOSTS)} >$1/etc/hosts
  [ -s $1/etc/passwd ] || printf 'root:x:0:0:root:/root:/bin/sh\\n' >$1/etc/passwd
  [ -s $1/etc/group ] || printf 'root:x:0:\\n' >$1/etc/group
} 2>/dev/null`;

/**
 * Has the kernel run programs of x86_64 by Rosetta, which a Mac shares
 * (Documentation/admin-guide/binfmt-misc.rst). Flags: Rosetta is opened once, at registration (F); it gets
 * each program opened (O), and the program's credentials (C).
 */
const ROSETTA =
  String.raw`:rosetta:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00:` +
  String
    .raw`\xff\xff\xff\xff\xff\xfe\xfe\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/run/rosetta/rosetta:OCF`;

/**
 * `/init` of the initrd: PID 1 of the guest, run by busybox. It mounts the root file system, starts
 * sbx-pty-agent in it, and reaps orphans for the life of the VM. Its comments number the phases of a boot.
 *
 * Its cost is part of every boot, and under emulation a fork takes 10 ms. So the agent is started early, and
 * the rest follows beside it or later:
 * - other mounts (workspace, pseudo-terminals, loopback) run beside it; it waits for `/run/sbx/mounted`
 *   before it sends `BootReady`;
 * - network modules and sbx-net-proxy, which take as long again, wait until the agent writes to
 *   `/run/sbx/booted`.
 *
 * Commands without a path are busybox applets, which its shell runs without an exec; that needs /proc.
 * Modules are `/modules/<group><order>-<name>.ko`: 1 for the root file system, 2 for the vsock and shared
 * folders, which loads meanwhile, 3 for the console of a Mac, 4 for Rosetta.
 *
 * Kernel parameters arrive as environment:
 * - `sbx_floor`: power off at once (the trial of KVM, and the floor that benchmarks compare with);
 * - `sbx_scratch`: there is a disk for the guest's writes;
 * - `sbx_blank`: that disk may not be formatted yet;
 * - `sbx_grow`: that disk is larger than its file system;
 * - `sbx_before`: there is a disk with the image that the VM had before;
 * - `sbx_template`: the machine will be saved, and started many times;
 * - `sbx_hvc`: the console needs a driver of group 3;
 * - `sbx_poweroff`: power off to end the machine, which a restart would not;
 * - `sbx_rosetta`: Rosetta is shared;
 * - `sbx_fixed`: the vsock cannot be ejected;
 * - `sbx_time_factor`: multiplies the guest's limits of time;
 * - `sbx_v8_flags`: adapts the agent to the accelerator.
 */
export const INIT = `#!/bin/busybox sh
b=/bin/busybox
off() { [ -n "$sbx_poweroff" ] && $b poweroff -f; $b reboot -f; }
[ -n "$sbx_floor" ] && { printf '\n%s\n' '${FLOOR_READY}'; off; }

stage() { read -r up _ </proc/uptime; stages="$stages$1 $up
"; }
die() { echo "sbx-init: $1" >/dev/console; off; }

# 1. The kernel: its own file systems, the trace, a console, modules.
$b mount -t proc proc /proc
stage kernel
mount -t sysfs sys /sys
${TRACE_FUNCTIONS}
${ROOT_FUNCTIONS}
# An emulated guest has booted with one processor (lib/machine/vm/command.ts).
(trace_events
for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do [ -e $cpu ] && echo 1 >$cpu; done
trace_buffer) 2>/dev/null &
for m in /modules/1*.ko; do insmod $m || die "cannot load module $m"; done
mount -t devtmpfs dev /dev
if [ -n "$sbx_hvc" ]; then
  # This shell began without a console: no message gets out before its driver is loaded.
  for m in /modules/3*.ko; do [ ! -e $m ] || insmod $m; done
  tries=0
  until (: <>/dev/console) 2>/dev/null || [ $tries -gt 200 ]; do tries=$((tries + 1)); usleep 5000; done
  [ $tries -gt 200 ] || exec <>/dev/console >&0 2>&0
fi
[ -z "$sbx_rosetta" ] || for m in /modules/4*.ko; do [ ! -e $m ] || insmod $m; done
(for m in /modules/2*.ko; do insmod $m || die "cannot load module $m"; done) &
modules=$!
stage modules

# 2. The root file system: the image below, sbx's programs, and the VM's disk or memory for writes.
tries=0
factor=\${sbx_time_factor%%.*}
until [ -b /dev/vda ]; do
  tries=$((tries + 1)); [ $tries -gt $((2000 * \${factor:-1})) ] && die "the root disk did not appear"
  usleep 5000
done
mount -t erofs -o ro /dev/vda /lower || die "cannot mount the root file system"
awaited layer
mount -t erofs -o ro $found ${LAYER_PATH} || die "cannot mount sbx's programs"
# Read Deno's pages ahead, in parallel: faulting them in one by one takes longer. A template keeps only the pages that it used.
[ -n "$sbx_template" ] || cat ${LAYER_PATH}/bin/deno >/dev/null &
if [ -n "$sbx_scratch" ]; then
  awaited scratch
  # Two zeros in place of ext4's magic number: the disk was never formatted.
  if [ -n "$sbx_blank" ] && [ "$(dd if=$found bs=1 skip=1080 count=2 2>/dev/null | od -An -tx1 | tr -d ' ')" = 0000 ]; then
    ${LAYER_PATH}/bin/mkfs.ext4 ${
  SCRATCH_OPTIONS.join(" ")
} $found >/dev/null || die "cannot format the scratch disk"
  fi
  mount -t ext4 -o noatime $found /upper || die "cannot mount the scratch disk"
  [ -z "$sbx_grow" ] || ${LAYER_PATH}/bin/resize2fs $found >/dev/null || echo "sbx-init: cannot enlarge the disk" >/dev/console
else
  mount -t tmpfs -o mode=0755 scratch /upper
fi
# The image that the disk's changes were made on, for sbx-conflicts.
if [ -n "$sbx_before" ]; then
  awaited before
  mount -t erofs -o ro $found /before || echo "sbx-init: cannot mount the image of before" >/dev/console
fi
disk=/upper
[ -d /upper/data ] || mkdir -p /upper/data /upper/work
mount -t overlay -o ${OVERLAY_OPTIONS},lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work root /new || die "cannot mount the overlay"
furnish /new
mount --bind ${LAYER_PATH} /new${LAYER_PATH}
mount -t tmpfs -o mode=0755 run /new/run
mkdir -p /new/run/sbx
mount -t devtmpfs dev /new/dev
mount -t proc proc /new/proc
stage rootfs

# This shell's root stays the empty initramfs under the moved mount: from here on, paths of the guest are relative.
cd /new
mount --move . /
printf '%s' "$stages" >./run/sbx/stages
[ -z "$sbx_template" ] || mkfifo ./run/sbx/plugged
[ -z "$sbx_fixed" ] || echo >./run/sbx/fixed
# 3. The agent.
# No code cache: each program starts only once, and would compile all of its code to fill the cache.
guest="env -i HOME=${LAYER_PATH} PATH=${COMMANDS_PATH}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DENO_DIR=/run/sbx/deno \\
  DENO_NO_UPDATE_CHECK=1 \${sbx_time_factor:+SBX_TIME_FACTOR=$sbx_time_factor} $b chroot ."
deno="${LAYER_PATH}/bin/deno run -A --unstable-vsock --unstable-net --no-config --no-lock \\
  --no-remote --no-npm --no-code-cache --quiet \${sbx_v8_flags:+--v8-flags=$sbx_v8_flags}"
$guest $deno ${LAYER_PATH}/sbx-pty-agent.js &
agent=$!
mkfifo ./run/sbx/booted ./run/sbx/activity-keys
chmod 600 ./run/sbx/activity-keys

# Functions for later.
# Moves everything to another root file system: pivot_root takes along every running program with the old root.
reroot() {
  furnish ./mnt
  for m in dev proc run sys ${LAYER_PATH.slice(1)}; do mount --move ./$m ./mnt/$m; done
  chroot . /mnt/run/sbx/busybox pivot_root mnt mnt/mnt || die "cannot change the root file system"
  umount -l ./mnt
}

network() {
  while read -r m; do insmod ./$m 2>/dev/null; done <.${MODULES_PATH}
  # Connections stay in the table for two minutes after their end, and a full table drops packets. A half-closed
  # connection must not expire while it waits for its answer.
  echo 65536 >./proc/sys/net/netfilter/nf_conntrack_max
  echo 3600 >./proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait
  while :; do $guest $deno ${LAYER_PATH}/sbx-net-proxy.js; sleep 1; done
}

# Overlays of containers cannot be on the guest's own: each engine has a folder of the disk. No link of the root file system is followed.
containers() {
  [ ! -L ./var ] && [ ! -L ./var/lib ] || return
  for engine in docker containerd containers; do
    [ ! -L ./var/lib/$engine ] && mkdir -p $disk/$engine ./var/lib/$engine && mount --bind $disk/$engine ./var/lib/$engine
  done
}
# podman and buildah look for their runtimes at fixed paths.
runtimes() {
  for p in ./etc/containers ./etc/containers/containers.conf.d; do
    [ ! -L $p ] || return
    [ -d $p ] || mkdir $p || return
  done
  p=$p/sbx.conf
  [ -L $p ] || [ ! -e $p ] || [ -f $p ] || return
  rm -f $p
  {
    echo '[engine.runtimes]'
    chosen=
    for r in ${RUNTIMES.join(" ")}; do
      for d in usr/bin usr/sbin usr/local/bin; do
        [ ! -x ./$d/$r ] || { echo "$r = ['${RUNTIMES_PATH}/$r']"; chosen=$r; break; }
      done
    done
    # Builds take the default by its name, from PATH.
    [ -z "$chosen" ] || printf "[engine]\\nruntime = '${RUNTIMES_PATH}/%s'\\n" $chosen
    # Docker's iptables rules drop unknown packets, also on podman's bridges; rules of nft could not let them through.
    [ ! -L ./usr/sbin/iptables ] && [ ! -x ./usr/sbin/iptables ] || printf "[network]\\nfirewall_driver = 'iptables'\\n"
  } >$p
}
docker() {
  while :; do $guest ${LAYER_PATH}/bin/perl -I${LAYER_PATH}/perl ${DOCKER_PATH}; sleep 1; done
}

# Reports programs to the host, and holds them until it decides. The agent, which starts programs, must not do that itself.
activity() {
  ulimit -n ${HELD_FILES_MAX}
  while :; do $guest ${LAYER_PATH}/bin/perl -I${LAYER_PATH}/perl ${KEEPER_PATH} $agent $deno; sleep 1; done
}

# 4. Beside the agent: other mounts, and an interface without a network.
wait $modules
mkdir -p ./dev/pts ./dev/shm
mount -t devpts -o gid=5,mode=0620,ptmxmode=0666 devpts ./dev/pts
mount -t tmpfs -o mode=1777 shm ./dev/shm
mount -t sysfs sys ./sys
mount -t cgroup2 cgroup2 ./sys/fs/cgroup
echo ${MODPROBE_PATH} >./proc/sys/kernel/modprobe
mount -t tracefs tracefs .${TRACING}
ln -sfn /proc/self/fd ./dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do ln -sfn /proc/self/fd/\${stream%:*} ./dev/\${stream#*:}; done
ifconfig lo 127.0.0.1 up
read -r m <.${MODULES_PATH}
insmod ./$m || echo "sbx-init: cannot load the network module" >/dev/console
# Without this the kernel would solicit routers, and each packet would be refused and recorded.
echo 0 >./proc/sys/net/ipv6/conf/${dummy}/router_solicitations
ifconfig ${dummy} ${ipv4} netmask 255.255.255.255 up
route add default dev ${dummy}
ip -6 addr add ${ipv6}/128 dev ${dummy}
ip -6 route add default dev ${dummy}

# 5. A template waits here until it is saved; a copy of it goes on with its own vsock and disk.
if [ -n "$sbx_template" ]; then
  # Everything that all copies need runs before the machine is saved; parts of a single VM are plugged in later.
  cp $b ./run/sbx/busybox
  mkfifo ./run/sbx/tick
  network &
  activity &
  until [ -e ./run/sbx/waiting ] && [ -e ./run/sbx/network ] && [ -e ./run/sbx/activity ]; do usleep 20000; done
  printf '\n%s\n' '${TEMPLATE_READY}' >/dev/console
  # Nothing is forked until the agent can talk to its host; other devices are found while it does.
  exec 9<>./run/sbx/tick
  until [ -e ./sys/bus/virtio/drivers/vmw_vsock_virtio_transport/virtio* ]; do
    read -r -t 0.005 m <&9
    echo 1 >./sys/bus/pci/devices/${VSOCK_PORT}/rescan
  done
  exec 9<&-
  echo >./run/sbx/plugged
  echo 1 >./sys/bus/pci/rescan
  disk scratch
  if [ -n "$found" ]; then
    mount -t ext4 -o noatime .$found /disk || die "cannot mount the scratch disk"
    mkdir -p /disk/data /disk/work
    mount -t overlay -o ${OVERLAY_OPTIONS},lowerdir=/lower,upperdir=/disk/data,workdir=/disk/work root ./mnt || die "cannot mount the overlay"
    reroot
    disk=/disk
  fi
fi
# 6. Container engines, Rosetta, the workspace: then the boot is complete.
docker= podman= engine=
for p in usr/bin usr/sbin usr/local/bin; do
  [ ! -x ./$p/dockerd ] || docker=yes
  [ ! -x ./$p/containerd ] || engine=yes
  for m in podman buildah; do [ ! -x ./$p/$m ] || podman=yes; done
done
[ -z "$docker$podman$engine" ] || containers
[ -z "$podman" ] || runtimes
[ -z "$docker" ] || docker &
echo >./run/sbx/rooted
if [ -n "$sbx_rosetta" ]; then
  mkdir -p ./run/rosetta
  mount -t virtiofs rosetta ./run/rosetta && mount -t binfmt_misc binfmt ./proc/sys/fs/binfmt_misc &&
    printf '%s' '${ROSETTA}' >./proc/sys/fs/binfmt_misc/register || echo "sbx-init: Rosetta is not there" >/dev/console
fi
mount -t virtiofs workspace ./workspace || echo "sbx-init: cannot mount the workspace" >/dev/console
echo >./run/sbx/mounted

# 7. After the boot.
# The VM's first program has priority; a short one has ended by then.
[ -n "$sbx_template" ] || (read -r m <./run/sbx/booted; usleep 300000; activity & network) &

wait $agent || die "sbx-pty-agent ended"
off
`;
