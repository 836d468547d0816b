/**
 * Confinement of programs that give secrets (docs/design/contracts/09-credentials.md §9, "Secrets of
 * programs"): namespaces of their own, by util-linux, in which homes, sockets and temporary files are
 * away and nothing can be written.
 */
import { dirname, join } from "node:path";
import { homedir } from "node:os";

/** Rights of a confined program. */
export interface Confinement {
  /** files and folders that it may read */
  read?: string[];
  /** it may reach the network */
  network?: true;
}

/** Status of a confined program that was not started: its namespaces could not be made. */
export const NOT_CONFINED = 125;
/**
 * Folders that a confined program finds empty: homes, sockets, temporary files, other disks,
 * and devices, such as terminals.
 */
const HIDDEN = ["/home", "/root", "/tmp", "/var/tmp", "/run", "/srv", "/media", "/mnt", "/dev"];
/** Devices that it has. */
const DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/** Hidden folders of which one holds kept paths meanwhile. */
const STASHES = ["/mnt", "/media", "/srv", "/var/tmp"];
/** Places to which `/etc/resolv.conf` may lead. */
const RESOLVERS = ["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];

/**
 * Script in the new namespaces. Kept paths are read-only before they are put back. The program runs in a user
 * namespace within, which can undo none of this. The former /proc is read-only too: where one is not, a
 * namespace within may mount another.
 *
 * Arguments: uid, gid, home, stash, then three lists, each behind its length (hidden,
 * kept, secret), then the program.
 */
const SCRIPT = `
fail() { exit ${NOT_CONFINED}; }
hide() { [ ! -d "$1" ] || mount -t tmpfs -o mode=0700,size=16m,nosuid,nodev sbx "$1" || fail; }
seal() {
  for more in "" ,nosuid ,nodev ,nosuid,nodev ,nosuid,nodev,noexec; do
    mount -o "remount,bind,ro$more" "$1" && return
  done
  fail
}
uid=$1 gid=$2 home=$3 stash=$4; shift 4
while read -r _ place _; do
  place=$(printf %b "$place")
  case $place in /proc/*|/dev|/dev/*) ;; *) [ ! -e "$place" ] || seal "$place" ;; esac
done < /proc/self/mounts
mount -t proc -o nosuid,nodev,noexec proc /proc || fail
for place in /proc/sys /proc/sysrq-trigger /proc/irq /proc/bus /proc/fs; do
  [ ! -e $place ] || { mount --bind $place $place && seal $place; } || fail
done
mount -t tmpfs -o mode=0700,size=64k,nosuid,nodev sbx "$stash" || fail
hidden=$1; shift
n=0; while [ $n -lt $hidden ]; do eval "hide_$n=\\$1"; shift; n=$((n+1)); done
kept=$1; shift
n=0; while [ $n -lt $kept ]; do
  if [ -d "$1" ]; then mkdir "$stash/$n" || fail; else : > "$stash/$n" || fail; fi
  mount --rbind "$1" "$stash/$n" || fail
  eval "keep_$n=\\$1"; shift; n=$((n+1))
done
n=0; while [ $n -lt $hidden ]; do eval "hide \\"\\$hide_$n\\""; n=$((n+1)); done
mkdir -p "$home" /dev/shm
ln -s /proc/self/fd /dev/fd
n=0; while [ $n -lt $kept ]; do
  eval "path=\\$keep_$n"
  if [ -d "$stash/$n" ]; then mkdir -p "$path" || fail
  else mkdir -p "$(dirname "$path")" || fail; [ -e "$path" ] || : > "$path" || fail; fi
  mount --rbind "$stash/$n" "$path" || fail
  n=$((n+1))
done
hide "$stash"
secret=$1; shift
n=0; while [ $n -lt $secret ]; do hide "$1"; shift; n=$((n+1)); done
exec unshare --user --map-user="$uid" --map-group="$gid" -- setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
`;

/** The command that runs a program confined. */
export function confinedCommand(argv: readonly string[], { read = [], network }: Confinement): string[] {
  const home = Deno.env.get("HOME") ?? homedir();
  const kept = [...DEVICES.filter(isThere), ...read, ...(network ? RESOLVERS.filter(isThere) : [])];
  const places = kept.flatMap((path) => [path, real(path)]);
  // Without one, the program is not started.
  const stash = STASHES.find((each) => isThere(each) && !places.some((path) => meet(path, each))) ?? "";
  const hidden = new Set([...HIDDEN, home].filter((each) => each !== stash));
  const list = (paths: readonly string[]) => [String(paths.length), ...paths];
  return [
    "unshare",
    ...["--user", "--map-root-user", "--mount", "--ipc", "--pid", "--fork", "--kill-child"],
    ...(network ? [] : ["--net"]),
    ...["--", "sh", "-c", SCRIPT, "sbx-confine", String(Deno.uid()), String(Deno.gid()), home, stash],
    ...list([...hidden]),
    ...list(kept),
    ...list(ownFolders(home)),
    ...argv,
  ];
}

/** True if one of two paths is the other, or within it. */
function meet(one: string, other: string): boolean {
  const [a, b] = [`${one}/`, `${other}/`];
  return a.startsWith(b) || b.startsWith(a);
}

/** Folders of sbx, whatever a person lets the program read; a link would lead past its cover. */
function ownFolders(home: string): string[] {
  const store = Deno.env.get("SBX_CREDENTIAL_STORE_PATH");
  const own = Deno.env.get("SBX_HOME") || join(home, ".sbx");
  const named = [own, ...(store ? [dirname(store)] : [])];
  return [...new Set([...named, ...named.map(real), ...(store ? [dirname(real(store))] : [])])];
}

function real(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}

function isThere(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
