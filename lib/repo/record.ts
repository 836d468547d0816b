/** Record of the sources brought into a VM, kept beside it on the host. */
import { basename } from "node:path";
import { z } from "zod";

const unitFields = {
  path: z.string().describe("below the folder; empty for that itself, others are submodules"),
  is_repository: z.boolean(),
  head: z.string().optional().describe(
    "commit that was checked out; of a folder, its files as they were sent",
  ),
  branch: z.string().optional(),
  work: z.string().describe("commit of the files as they were; of a folder, with later pulls"),
  pulled: z.record(z.string(), z.string()).describe("branch of the person → commit that a pull gave it"),
};

const Unit = z.strictObject({
  ...unitFields,
  squashed: z.record(z.string(), z.string()).optional().describe(
    "branch of the person → newest commit of the guest that its one commit holds",
  ),
  joined: z.record(z.string(), z.array(z.string())).optional().describe(
    "branch of the person → other VMs whose pieces are on it, which this VM's work does not have",
  ),
  applied: z.strictObject({ commit: z.string(), head: z.string().optional() }).optional().describe(
    "state that the files of the person were given, and the newest commit of the guest in it",
  ),
  store: z.string().regex(/^[0-9]+\.git$/).describe("folder beside the record that has its objects"),
});
export type Unit = z.infer<typeof Unit>;

const RecordedSource = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9._-]*$/).describe(
    "name of the folder in the VM; no other source of it has the same",
  ),
  dir: z.string().describe("folder of the person"),
  place: z.string().describe("folder in the guest"),
  is_live: z.boolean().optional().describe("the guest has the folder of the person itself"),
  is_read_only: z.boolean().optional().describe("nothing of it comes back"),
  units: z.array(Unit).min(1),
});
export type RecordedSource = z.infer<typeof RecordedSource>;

export const RepositoryRecord = z.strictObject({
  version: z.literal(2),
  sources: z.array(RecordedSource).min(1).describe("sources in the order in which they were brought in"),
});
export type RepositoryRecord = z.infer<typeof RepositoryRecord>;

/** The record of earlier versions: one source, its stores named by the places of its units. */
const OneSource = z.strictObject({
  version: z.literal(1),
  dir: z.string(),
  place: z.string(),
  is_live: z.boolean().optional(),
  units: z.array(z.strictObject(unitFields)).min(1),
});

/** Reads a record of this version or an earlier one. @throws where it is neither */
export function parseRecord(text: string): RepositoryRecord {
  const value: unknown = JSON.parse(text);
  const earlier = OneSource.safeParse(value);
  if (!earlier.success) return RepositoryRecord.parse(value);
  const { version: _, units, ...source } = earlier.data;
  return {
    version: 2,
    sources: [{
      name: nameOf(source.place, []),
      ...source,
      units: units.map((unit, at) => ({ ...unit, store: `${at}.git` })),
    }],
  };
}

/** Sources whose work comes back. */
export function returning({ sources }: RepositoryRecord): RecordedSource[] {
  return sources.filter(({ is_read_only }) => !is_read_only);
}

/** The last part of a path as a name, with a number after it where others have that. */
export function nameOf(path: string, taken: readonly string[]): string {
  const name = basename(path).replaceAll(/[^A-Za-z0-9._-]/g, "_").replace(/^[.-]+/, "") || "folder";
  let free = name;
  for (let number = 2; taken.includes(free); number++) free = `${name}-${number}`;
  return free;
}
