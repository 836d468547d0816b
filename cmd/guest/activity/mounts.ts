/** File systems of the guest, by where they are mounted. */
import { GUEST_WORKSPACE, type NamedPaths } from "../../../lib/event/mod.ts";

/** Those whose files are told and held in any case. */
const ALWAYS = ["/", GUEST_WORKSPACE];

/** A path on each file system of a mountinfo(5). */
export function mountsIn(mountinfo: string): Iterable<string> {
  const paths = new Map<string, string>();
  for (const line of mountinfo.split("\n")) {
    const [, , device, , path] = line.split(" ");
    if (path === undefined || paths.has(device)) continue;
    paths.set(device, path.replace(/\\(\d{3})/g, (_, code) => String.fromCharCode(parseInt(code, 8))));
  }
  return paths.values();
}

/** Where the file systems are mounted whose files are told and held: of the workspace, the root, and what a profile names. */
export function watchedMounts(named: NamedPaths): Set<string> {
  const mounts = [...mountsIn(Deno.readTextFileSync("/proc/self/mountinfo"))];
  const watched = new Set(ALWAYS);
  for (const path in named) {
    const around = mounts.filter((mount) =>
      path === mount || path.startsWith(mount === "/" ? "/" : `${mount}/`)
    );
    watched.add(around.reduce((longest, mount) => mount.length > longest.length ? mount : longest, "/"));
  }
  return watched;
}
