import { join } from "node:path";
import { z } from "zod";
import { CreateRequest, EnvSchema } from "../../client/api/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import type { VmPaths, VmRecord } from "../../session/mod.ts";

/**
 * The part of a request that each boot starts from. The VM's record has the results, made of this, the profile, settings
 * and corp; the next boot makes them again.
 */
export const VmRequest = z.strictObject({
  cpus: CreateRequest.shape.cpus,
  ram_mb: CreateRequest.shape.ram_mb,
  arch: CreateRequest.shape.arch,
  env: EnvSchema,
});
export type VmRequest = z.infer<typeof VmRequest>;

export async function writeRequest(paths: Pick<VmPaths, "dir">, request: VmRequest): Promise<void> {
  await writeAtomic(pathOf(paths), JSON.stringify(request) + "\n");
}

/** Reads the request of a VM. Without a usable file it is the VM's own record. */
export async function readRequest(paths: Pick<VmPaths, "dir">, record: VmRecord): Promise<VmRequest> {
  const path = pathOf(paths);
  try {
    return VmRequest.parse(JSON.parse(await Deno.readTextFile(path)));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) {
      log.warn(`${path} is damaged: the VM boots with the values of its last boot`);
    }
    const { cpus, ram_mb, env, assets: { arch } } = record;
    return { cpus, ram_mb, arch, env };
  }
}

function pathOf({ dir }: Pick<VmPaths, "dir">): string {
  return join(dir, "asked.json");
}
