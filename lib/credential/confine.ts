/**
 * Confinement of programs that give secrets (docs/design/contracts/09-credentials.md §9, "Secrets of programs"): namespaces of
 * their own, by util-linux, in which homes, sockets and temporary files are away and nothing can be written.
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
/** Folders that a confined program finds empty: homes, sockets, temporary files, other disks. */
const HIDDEN = ["/home", "/root", "/tmp", "/var/tmp", "/run", "/srv", "/media", "/dev/shm"];
/** Places to which `/etc/resolv.conf` may lead. */
const RESOLVERS = ["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];

/**
 * Script in the new namespaces. Kept paths are read-only before they are put back. The program runs in a user namespace within,
 * which can undo none of this.
 *
 * Arguments: uid, gid, home, then three lists, each behind its length (hidden, kept, secret), then the program.
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
uid=$1 gid=$2 home=$3; shift 3
while read -r _ place _; do
  place=$(printf %b "$place")
  case $place in /proc|/proc/*|/sys|/sys/*|/dev|/dev/*) ;; *) [ ! -e "$place" ] || seal "$place" ;; esac
done < /proc/self/mounts
mount -t tmpfs -o mode=0700,size=64k,nosuid,nodev sbx /mnt || fail
hidden=$1; shift
n=0; while [ $n -lt $hidden ]; do eval "hide_$n=\\$1"; shift; n=$((n+1)); done
kept=$1; shift
n=0; while [ $n -lt $kept ]; do
  if [ -d "$1" ]; then mkdir "/mnt/$n" || fail; else : > "/mnt/$n" || fail; fi
  mount --rbind "$1" "/mnt/$n" || fail
  eval "keep_$n=\\$1"; shift; n=$((n+1))
done
n=0; while [ $n -lt $hidden ]; do eval "hide \\"\\$hide_$n\\""; n=$((n+1)); done
mkdir -p "$home"
n=0; while [ $n -lt $kept ]; do
  eval "path=\\$keep_$n"
  if [ -d "/mnt/$n" ]; then mkdir -p "$path" || fail
  else mkdir -p "$(dirname "$path")" || fail; [ -e "$path" ] || : > "$path" || fail; fi
  mount --rbind "/mnt/$n" "$path" || fail
  n=$((n+1))
done
secret=$1; shift
n=0; while [ $n -lt $secret ]; do hide "$1"; shift; n=$((n+1)); done
exec unshare --user --map-user="$uid" --map-group="$gid" -- setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
`;

/** The command that runs a program confined. */
export function confinedCommand(argv: readonly string[], { read = [], network }: Confinement): string[] {
  const home = Deno.env.get("HOME") ?? homedir();
  const kept = [...read, ...(network ? RESOLVERS.filter(isFolder) : [])];
  const list = (paths: readonly string[]) => [String(paths.length), ...paths];
  return [
    "unshare",
    ...["--user", "--map-root-user", "--mount", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"],
    ...(network ? [] : ["--net"]),
    ...["--", "sh", "-c", SCRIPT, "sbx-confine", String(Deno.uid()), String(Deno.gid()), home],
    ...list([...new Set([...HIDDEN, home])]),
    ...list(kept),
    ...list(ownFolders(home)),
    ...argv,
  ];
}

/** Folders of sbx, whatever a person lets the program read. */
function ownFolders(home: string): string[] {
  const store = Deno.env.get("SBX_CREDENTIAL_STORE_PATH");
  return [Deno.env.get("SBX_HOME") || join(home, ".sbx"), ...(store ? [dirname(store)] : [])];
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}
