import { z } from "zod";
import { writeAtomic } from "../../base/home/atomic.ts";
import { MachineInfo } from "../../ipc/schema.ts";
import type { SessionPaths } from "./paths.ts";

/** What is kept on disk of one VM: enough for its process to boot it and for a restarted service to find it again. */
export const VmRecord = z.strictObject({
  id: z.uuid(),
  name: z.string(),
  profile_id: z.string(),
  profile_revision: z.string(),
  created_at: z.iso.datetime(),
  persistent: z.boolean(),
  cpus: z.int(),
  ram_mb: z.int(),
  scratch_gb: z.int().describe("0: what the guest writes stays in its memory"),
  env: z.record(z.string(), z.string()),
  files: z.array(z.strictObject({ path: z.string(), content: z.string(), mode: z.int() })),
  assets: z.strictObject({ version: z.string(), kernel: z.string(), initrd: z.string(), rootfs: z.string() }),
});
export type VmRecord = z.infer<typeof VmRecord>;

export async function readRecord(paths: SessionPaths): Promise<VmRecord> {
  return VmRecord.parse(JSON.parse(await Deno.readTextFile(paths.record)));
}

export async function writeRecord(paths: SessionPaths, record: VmRecord): Promise<void> {
  await writeAtomic(paths.record, JSON.stringify(record, null, 2) + "\n");
}

/** The VM's state as its process last told it; the service writes it only when that process is gone. */
export async function readState(paths: SessionPaths): Promise<MachineInfo | undefined> {
  const text = await Deno.readTextFile(paths.state).catch(() => undefined);
  return text === undefined ? undefined : MachineInfo.parse(JSON.parse(text));
}

export async function writeState(paths: SessionPaths, state: MachineInfo): Promise<void> {
  await writeAtomic(paths.state, JSON.stringify(state) + "\n");
}
