/**
 * Programs of a company and of packages that run while an image is built: in a tree of its own, and in
 * namespaces by util-linux, as root of the tree at most (docs/design/contracts/04-profiles.md §4, "Packages
 * of a profile").
 */
import { join } from "node:path";
import { ifFound, SbxError } from "../../../base/error/mod.ts";
import { plain } from "../../../base/print/mod.ts";

/** Bytes of the last output of such a program that are kept, and lines that an error shows. */
const LOG_BYTES = 65_536, LOG_LINES = 12;
/** Status of a step that was not started: its namespaces could not be made. */
const NOT_CONFINED = 125;

/**
 * Runs a program in a tree: with its own /proc, which is read-only, no /sys, five devices, an empty /tmp and
 * /run, and no descriptor but the three of every program. mmdebstrap's hooks have a socket by which the
 * machine's files are read and written. A chroot rather than a new root: the kernel makes no user namespace
 * in one, and without CAP_SYS_CHROOT it is not left. There is no /dev/tty: by TIOCSTI a program would type
 * into the terminal of the person who builds.
 *
 * Arguments: tree, user, capabilities, file that becomes /run/step, then more arguments of it.
 */
export const CONFINED = `#!/bin/bash
set -eu
fail() { echo "the confinement could not be made" >&2; exit ${NOT_CONFINED}; }
tree=$1 user=$2 capabilities=$3 step=$4; shift 4
for fd in /proc/$$/fd/*; do
  fd=\${fd##*/}
  case $fd in 0|1|2|255) ;; *) eval "exec $fd>&-" ;; esac
done
mount --bind "$tree" "$tree" || fail
mount -t proc -o ro,nosuid,nodev,noexec proc "$tree/proc" || fail
mount -t tmpfs -o mode=0755,nosuid,noexec,size=1m sbx "$tree/dev" || fail
for device in null zero full random urandom; do
  : >"$tree/dev/$device"
  mount --bind "/dev/$device" "$tree/dev/$device" || fail
done
ln -s /proc/self/fd "$tree/dev/fd"
mkdir -m 1777 "$tree/dev/shm"
mount -t tmpfs -o mode=0755,nosuid,nodev,size=16m sbx "$tree/run" || fail
mount -t tmpfs -o mode=1777,nosuid,nodev sbx "$tree/tmp" || fail
install -m 0555 "$step" "$tree/run/step" || fail
if [ "$user" = 0 ]; then ids=(); else ids=("--reuid=$user" "--regid=$user" --clear-groups); fi
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \\
  DEBIAN_FRONTEND=noninteractive chroot "$tree" /usr/bin/setpriv \${ids[@]+"\${ids[@]}"} --no-new-privs \\
  --inh-caps=-all "--bounding-set=$capabilities" -- /run/step "$@"
`;

/** Rights over files of the tree, and over programs that the script has started. */
const ROOT_OF_TREE = "-all,+chown,+dac_override,+fowner,+fsetid,+setuid,+setgid,+kill";

/**
 * Shell functions of hooks: `confined NAME TREE FILE` runs a file as root of the tree without a network, and
 * `download`, `compile` as nobody, with and without one. Output and status are in `$work/NAME.log` and
 * `$work/NAME.status`; another status than 0 ends the hook.
 */
export const STEPS = `step() {
  name=$1; shift
  { code=0; "$@" </dev/null 2>&1 || code=$?; echo $code >"$work/$name.status"; } | tail -c ${LOG_BYTES} >"$work/$name.log"
  if [ -n "\${SUDO_UID:-}" ]; then chown "$SUDO_UID:$SUDO_GID" "$work/$name.status" "$work/$name.log"; fi
  [ "$(cat "$work/$name.status")" = 0 ]
}
spaces="unshare --mount --propagation private --pid --fork --kill-child --ipc --uts"
confined() { step "$1" $spaces --net bash "$work/confined.sh" "$2" 0 ${ROOT_OF_TREE} "$3"; }
download() { step "$1" $spaces bash "$work/confined.sh" "$2" 65534 -all "$3"; }
compile() { step "$1" $spaces --net bash "$work/confined.sh" "$2" 65534 -all "$3"; }
`;

/**
 * Says why a step of a hook has failed, with the end of its output.
 *
 * @param what name of the step, as the start of a sentence: "the script setup.sh"
 * @throws {SbxError} `image.step.failed`, unless it has ended well, or did not begin
 */
export async function requireStep(work: string, name: string, what: string, hint: string): Promise<void> {
  const status = (await ifFound(Deno.readTextFile(join(work, `${name}.status`))))?.trim() ?? "0";
  if (status === "0") return;
  const log = (await ifFound(Deno.readTextFile(join(work, `${name}.log`)))) ?? "";
  const lines = log.trimEnd().split("\n").slice(-LOG_LINES).map((line) => plain(line).slice(0, 300));
  const text = lines.join("\n").trim();
  throw new SbxError(
    "image.step.failed",
    `${what} exited with ${status}${text ? `; the end of its output:\n${text}` : ", without any output"}`,
    {
      cause: log,
      hint: status === String(NOT_CONFINED) ? "build as root, or where users may make namespaces" : hint,
    },
  );
}
