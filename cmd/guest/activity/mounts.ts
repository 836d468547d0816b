/** File systems of the guest, by where they are mounted. */
import { GUEST_WORKSPACE, type NamedPaths } from "../../../lib/event/mod.ts";
import { type Mount, mountsOf } from "./mountinfo.ts";

/** File systems whose files are always reported and held. */
const ALWAYS = ["/", GUEST_WORKSPACE];

/** Mounts in every namespace of the guest, and the path by which this program reaches each. */
export function* mountsOfAll(): Iterable<{ mount: Mount; path: string }> {
  const namespaces = new Set<string>();
  for (const process of ["self", ...processes()]) {
    try {
      const namespace = Deno.readLinkSync(`/proc/${process}/ns/mnt`);
      if (namespaces.has(namespace)) continue;
      const mounts = mountsOf(Deno.readTextFileSync(`/proc/${process}/mountinfo`));
      namespaces.add(namespace);
      const root = process === "self" ? "" : `/proc/${process}/root`;
      for (const mount of mounts) yield { mount, path: root + mount.point };
    } catch {
      // It has ended.
    }
  }
}

function* processes(): Iterable<string> {
  for (const { name } of Deno.readDirSync("/proc")) if (/^\d+$/.test(name)) yield name;
}

/** Mount points of the file systems whose files are reported and held: workspace, root, and the profile's. */
export function watchedMounts(named: NamedPaths): Set<string> {
  const mounts = mountsOf(Deno.readTextFileSync("/proc/self/mountinfo")).map(({ point }) => point);
  const watched = new Set(ALWAYS);
  for (const path in named) {
    const around = mounts.filter((mount) =>
      path === mount || path.startsWith(mount === "/" ? "/" : `${mount}/`)
    );
    watched.add(around.reduce((longest, mount) => mount.length > longest.length ? mount : longest, "/"));
  }
  return watched;
}
