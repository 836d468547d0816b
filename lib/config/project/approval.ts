/** Approvals of project files by a person, by folder and the hash of the file. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { type Home, makeOwnFolder, writeAtomic } from "../../base/home/mod.ts";
import { type Project, widenings } from "./read.ts";

type Place = Pick<Project, "dir" | "owner">;

const Approved = z.strictObject({
  dir: z.string(),
  owner: z.int().nullable(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** the parts that wait for a person, as they were then */
  approved: z.array(z.string()),
  at: z.iso.datetime(),
});
/** An approval of a folder's project file. */
export type Approved = z.infer<typeof Approved>;

/** The last approval of a folder. @throws {SbxError} `project.invalid`: its file is broken */
export async function approvalOf(home: Pick<Home, "dir">, place: Place): Promise<Approved | undefined> {
  const found = await read(pathOf(home, place));
  return found?.dir === place.dir && found.owner === place.owner ? found : undefined;
}

/** Tests whether these bytes need no answer: they widen nothing, or a person has approved them. */
export function isApproved(project: Project, approval: Approved | undefined): boolean {
  return widenings(project).length === 0 || approval?.sha256 === project.sha256;
}

/** Additions to the last approval, and removals from it: lines with `+` and `-`. */
export function changesOf(project: Project, approval: Approved | undefined): string[] {
  const [before, after] = [approval?.approved ?? [], widenings(project)];
  return [
    ...before.filter((line) => !after.includes(line)).map((line) => `- ${line}`),
    ...after.filter((line) => !before.includes(line)).map((line) => `+ ${line}`),
  ];
}

/** Keeps an approval of the file as it was read. */
export async function approve(home: Pick<Home, "dir">, project: Project): Promise<Approved> {
  const { dir, owner, sha256 } = project;
  const approval = { dir, owner, sha256, approved: widenings(project), at: new Date().toISOString() };
  await makeOwnFolder(folderOf(home));
  await writeAtomic(pathOf(home, project), JSON.stringify(approval) + "\n");
  return approval;
}

/** Takes the approvals of a folder back, whoever owned it. @returns false: it had no approval */
export async function forget(home: Pick<Home, "dir">, dir: string): Promise<boolean> {
  const found = (await approvalsIn(home)).filter((approval) => approval.dir === dir);
  for (const approval of found) await Deno.remove(pathOf(home, approval));
  return found.length > 0;
}

/** All approvals, by folder. */
export async function approvalsIn(home: Pick<Home, "dir">): Promise<Approved[]> {
  const folder = folderOf(home);
  const entries = await ifFound(Array.fromAsync(Deno.readDir(folder))) ?? [];
  const names = entries.map(({ name }) => name).filter((name) => /^[0-9a-f]{64}\.json$/.test(name));
  const all = await Promise.all(names.map((name) => read(join(folder, name))));
  return all.filter((each) => each !== undefined).sort((a, b) => a.dir < b.dir ? -1 : 1);
}

async function read(path: string): Promise<Approved | undefined> {
  const text = await ifFound(Deno.readTextFile(path));
  if (text === undefined) return undefined;
  try {
    return Approved.parse(JSON.parse(text));
  } catch (cause) {
    throw new SbxError("project.invalid", `${path} is not an approval`, {
      cause,
      hint: `remove it: rm ${path}`,
    });
  }
}

function folderOf({ dir }: Pick<Home, "dir">): string {
  return join(dir, "projects");
}

function pathOf(home: Pick<Home, "dir">, { dir, owner }: Place): string {
  const key = createHash("sha256").update(`${owner}\0${dir}`).digest("hex");
  return join(folderOf(home), `${key}.json`);
}
