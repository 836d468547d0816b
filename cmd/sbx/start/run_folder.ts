/** `sbx run --from-dir`: a program in a temporary VM that has a folder of the person. */
import type { CreateRequest, ExecRequest, VmSummary } from "../../../lib/client/api/mod.ts";
import type { Arguments } from "../../../lib/base/args/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { changesOf, pullWork } from "../../../lib/repo/mod.ts";
import { formatNotable } from "../files/diff_text.ts";
import { waitUntilRunning } from "../vm/boot.ts";
import { streamProgram } from "../vm/program.ts";
import { bringFolder, collectWork, formatBrought, formatPulled } from "../files/repository.ts";

/**
 * Runs a program in the folder, and removes the VM; with `--pull` its work is taken first.
 *
 * @returns the program's exit code
 * @throws {SbxError} also where the work cannot be taken: the VM then stays
 */
export async function runInFolder(
  client: Client,
  dir: string,
  args: Arguments,
  vm: CreateRequest,
  program: ExecRequest,
): Promise<number> {
  const { id, ...created } = await client.json<VmSummary>("POST", "/vms/create", {
    json: { ...vm, persistent: false },
  });
  let keep = false;
  try {
    await waitUntilRunning(client, { id, ...created });
    const brought = await bringFolder(client, created.name, dir, args);
    note(formatBrought(brought));
    const json = { ...program, cwd: program.cwd ?? brought.place };
    const response = await client.send("POST", `/vms/${segment(id)}/exec`, {
      json,
      accept: "text/event-stream",
    });
    const code = await streamProgram(response);
    keep = args.has("pull");
    await takeWork(client, created.name, keep);
    keep = false;
    return code;
  } finally {
    if (keep) note(`sbx: the VM ${created.name} stays, with its work: sbx diff ${created.name}`);
    else await client.json("DELETE", `/vms/${segment(id)}/delete?force=true`);
  }
}

/** Takes the work, or says how much of it goes with the VM. */
async function takeWork(client: Client, name: string, isWanted: boolean): Promise<void> {
  await using work = await collectWork(client, name);
  const units = await Promise.all(work.units.map(changesOf));
  if (isWanted) {
    note(formatPulled(await pullWork(work)));
    for (const line of formatNotable(units)) note(line);
    return;
  }
  const files = units.reduce((sum, unit) => sum + unit.files.length, 0);
  if (files > 0) note(`sbx: ${count(files, "changed file")} went with the VM; --pull takes them`);
}
