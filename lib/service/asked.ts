import { join } from "node:path";
import { z } from "zod";
import { CreateRequest, EnvSchema } from "../api/vm.ts";
import { writeAtomic } from "../base/home/mod.ts";
import type { SessionPaths, VmRecord } from "../session/mod.ts";

/**
 * What the creator of a VM asked for. It is kept apart from the record, which is what profile, settings and corp made
 * of it at the last boot: the next boot makes it anew.
 */
export const Asked = z.strictObject({
  cpus: CreateRequest.shape.cpus,
  ram_mb: CreateRequest.shape.ram_mb,
  env: EnvSchema,
});
export type Asked = z.infer<typeof Asked>;

export async function writeAsked(paths: SessionPaths, asked: Asked): Promise<void> {
  await writeAtomic(pathOf(paths), JSON.stringify(asked) + "\n");
}

/** Where the file is gone, the VM asked for what it has. */
export async function readAsked(paths: SessionPaths, record: VmRecord): Promise<Asked> {
  try {
    return Asked.parse(JSON.parse(await Deno.readTextFile(pathOf(paths))));
  } catch {
    const { cpus, ram_mb, env } = record;
    return { cpus, ram_mb, env };
  }
}

function pathOf({ dir }: SessionPaths): string {
  return join(dir, "asked.json");
}
