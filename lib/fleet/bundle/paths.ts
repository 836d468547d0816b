import { join } from "node:path";
import type { Home } from "../../base/home/mod.ts";

/** Paths of the bundle below a home. */
export function bundlePaths({ dir }: Pick<Home, "dir">) {
  const folder = join(dir, "fleet", "bundle");
  return {
    folder,
    active: join(folder, "active.json"),
    status: join(folder, "status.json"),
    lock: join(folder, ".lock"),
    /** files of a version, as they were fetched */
    version: (version: string) => join(folder, version),
  };
}
