/** Workspaces with their snapshot store, on a real file system. */
import { join } from "node:path";
import { type SnapshotLimits, SnapshotStore, toText } from "../../lib/machine/snapshot/mod.ts";
import { runChild } from "./child.ts";

/** A workspace, a folder outside it, and the store. */
export interface SnapshotWorld {
  workspace: string;
  outside: string;
  dir: string;
  store: SnapshotStore;
  limits: SnapshotLimits;
  /** takes a manual snapshot. @returns its id */
  take(label?: string): Promise<string>;
  restore(id: string, paths?: string[]): ReturnType<SnapshotStore["restore"]>;
  /** `change path` of each difference */
  diff(from: string, to?: string): Promise<string[]>;
  put(path: string, text: string): Promise<void>;
  /** runs a shell script in the workspace; `$1` is the folder outside it */
  sh(script: string): Promise<string>;
  objects(): Promise<string[]>;
}

/** @param base folder for all of it; absent: a new one, removed afterwards */
export async function withSnapshots(
  work: (world: SnapshotWorld) => Promise<void>,
  { base, limits = { auto: 10, manual: 12 } }: { base?: string; limits?: SnapshotLimits } = {},
): Promise<void> {
  const root = base ?? await Deno.makeTempDir();
  const [workspace, outside, dir] = ["workspace", "outside", "snapshots"].map((name) => join(root, name));
  for (const path of [workspace, outside, dir]) await Deno.mkdir(path);
  const store = new SnapshotStore(dir, workspace, 0);
  try {
    await work({
      workspace,
      outside,
      dir,
      store,
      limits,
      take: async (label) => (await store.create({ kind: "manual", label, limits }))!.id,
      restore: (id, paths) => store.restore(id, { kind: "auto", paths, limits }),
      diff: async (from, to) =>
        (await store.diff(from, to)).map(({ change, path }) => `${change} ${toText(path)}`),
      put: (path, text) => Deno.writeTextFile(join(workspace, path), text),
      sh: async (script) => {
        const { success, stdout, stderr } = await runChild("bash", {
          args: ["-euc", script, "sh", outside],
          cwd: workspace,
        });
        if (!success) throw new Error(new TextDecoder().decode(stderr));
        return new TextDecoder().decode(stdout);
      },
      objects: () => listObjects(dir),
    });
  } finally {
    if (!base) await Deno.remove(root, { recursive: true });
  }
}

/** Names of the stored contents, and of what is half-written. */
export async function listObjects(dir: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(join(dir, "objects"))) {
    if (!isDirectory) names.push(name);
    else for await (const rest of Deno.readDir(join(dir, "objects", name))) names.push(name + rest.name);
  }
  return names.sort();
}
