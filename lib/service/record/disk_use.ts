/** Disk space of a home, by kind of file (docs/design/contracts/02-http.md §2, "Disk space"). */
import { join } from "node:path";
import type { DiskUse } from "../../client/api/mod.ts";
import { type Counted, freeBytes, measure } from "../../base/disk/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { environmentsDir, layersDir, listEnvironments } from "../../release/environment/mod.ts";
import { sessionPaths } from "../../session/mod.ts";
import type { Bin } from "../vm/bin.ts";
import type { Registry } from "../vm/registry.ts";
import type { RecordRoom } from "./room.ts";
import type { Sessions } from "./sessions.ts";

/** Parts of the service that name the files of a home. */
export interface DiskParts {
  home: Home;
  registry: Pick<Registry, "all">;
  bin: Pick<Bin, "list">;
  sessions: Pick<Sessions, "list">;
  room: Pick<RecordRoom, "kept">;
}

type Kind = DiskUse["kinds"][number];

/** Measures every file of a home once. */
export async function diskUseOf({ home, registry, bin, sessions, room }: DiskParts): Promise<DiskUse> {
  const counted: Counted = new Set();
  const kind = async (kind: Kind["kind"], places: readonly [name: string, path: string][]): Promise<Kind> => {
    const entries: Kind["entries"] = [];
    for (const [name, path] of places) {
      const { bytes, changed } = await measure(path, counted);
      if (bytes === 0) continue;
      entries.push({ name, path, bytes, changed_at: changed > 0 ? new Date(changed).toISOString() : null });
    }
    entries.sort((a, b) => b.bytes - a.bytes);
    return { kind, bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0), entries };
  };
  const vms = registry.all().map(({ record: { id, name } }) => ({ name, paths: sessionPaths(home, id) }));
  const names = new Map((await sessions.list(Number.MAX_SAFE_INTEGER)).map(({ id, name }) => [id, name]));
  const environments = await listEnvironments(home);
  const ledgers = join(home.dir, "ledgers"), deleted = join(home.dir, "deleted");
  // Parts of a VM's folder come before the folder, which then has the rest.
  const snapshots = await kind("snapshots", vms.map(({ name, paths }) => [name, paths.snapshots]));
  const undo = await kind(
    "undo_states",
    vms.map(({ name, paths }) => [name, join(paths.repository, "undo")]),
  );
  const ofVms = await kind("vms", [
    ...vms.map(({ name, paths }): [string, string] => [name, paths.dir]),
    ["its folder", home.sessionsDir],
  ]);
  const rest = [
    await kind("deleted_vms", [
      ...(await bin.list()).map(({ id, name }): [string, string] => [name, join(deleted, id)]),
      ["its folder", deleted],
    ]),
    await kind("oci_images", [
      ...environments.map(({ key, reference }): [string, string] => [
        reference,
        join(environmentsDir(home), key),
      ]),
      ["layers", layersDir(home)],
      ["leftovers and locks", environmentsDir(home)],
    ]),
    await kind("images", await placesIn(home.assetsDir)),
    await kind("templates", await placesIn(home.templatesDir)),
    await kind("caches", await placesIn(home.cacheDir)),
    await kind("records", [
      ...(await placesIn(ledgers)).map(([id, path]): [string, string] => [
        names.has(id) ? `${names.get(id)} (${id})` : id,
        path,
      ]),
      ["register of sessions", join(home.dir, "record")],
      ...["", "-wal", "-shm"].map((end): [string, string] => [
        `index of sessions (main.db${end})`,
        join(home.dir, `main.db${end}`),
      ]),
    ]),
    await kind("logs", await placesIn(home.logsDir)),
    await kind("other", await placesIn(home.dir)),
  ];
  const kinds = [ofVms, snapshots, undo, ...rest];
  return {
    home: home.dir,
    bytes: kinds.reduce((sum, { bytes }) => sum + bytes, 0),
    free_bytes: await freeBytes(home.dir),
    kinds,
    kept_records: await room.kept(),
  };
}

async function placesIn(dir: string): Promise<[name: string, path: string][]> {
  try {
    return (await Array.fromAsync(Deno.readDir(dir))).map(({ name }) => [name, join(dir, name)]);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
