/** The answer of a person about a setup, remembered until anything of it changes. */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../base/error/mod.ts";
import { type Home, makeOwnFolder, removeIfThere, writeAtomic } from "../base/home/mod.ts";
import type { Setup } from "./setup.ts";

/** An answer of a person. */
const Approval = z.strictObject({
  schema: z.literal("sbx.setup_approval.v1"),
  agent: z.string(),
  /** of the setup as it was shown */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  /** ids of its programs that go */
  programs: z.array(z.string()),
  /** digests of its files, by path: to name the changed ones */
  files: z.record(z.string(), z.string()),
  at: z.string(),
});
export type Approval = z.output<typeof Approval>;

/** File of the answer about an agent's setup. */
export function approvalPath({ dir }: Pick<Home, "dir">, agent: string): string {
  return join(dir, "setup", `${agent}.json`);
}

/** The last answer about an agent's setup. @throws {SbxError} `agent.setup_damaged` */
export async function readApproval(home: Pick<Home, "dir">, agent: string): Promise<Approval | undefined> {
  const path = approvalPath(home, agent);
  const text = await ifFound(Deno.readTextFile(path));
  if (text === undefined) return undefined;
  try {
    const approval = Approval.parse(JSON.parse(text));
    if (approval.agent === agent) return approval;
  } catch {
    // Below.
  }
  throw new SbxError("agent.setup_damaged", `${path} is damaged`, {
    hint: `sbx agent setup ${agent} --forget removes it`,
  });
}

/** Remembers an answer. @param programs ids that go */
export async function writeApproval(
  home: Pick<Home, "dir">,
  { agent, hash, files }: Pick<Setup, "agent" | "hash" | "files">,
  programs: readonly string[],
  now = new Date(),
): Promise<void> {
  const approval: Approval = {
    schema: "sbx.setup_approval.v1",
    agent,
    hash,
    programs: [...programs],
    files: Object.fromEntries(files.map(({ path, digest }) => [path, digest])),
    at: now.toISOString(),
  };
  await makeOwnFolder(join(home.dir, "setup"));
  await writeAtomic(approvalPath(home, agent), `${JSON.stringify(approval, null, 2)}\n`);
}

/** Forgets the answer about an agent's setup. */
export function forgetApproval(home: Pick<Home, "dir">, agent: string): void {
  removeIfThere(approvalPath(home, agent));
}
