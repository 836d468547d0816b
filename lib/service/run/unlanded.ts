/** Work of a VM that only the VM has: a deletion of it asks first. */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { count } from "../../base/text/mod.ts";
import { Room, untakenOf } from "../../repo/mod.ts";
import type { Vm } from "../vm/vm.ts";
import { collectWork } from "./work.ts";

/**
 * Refuses if a pull would bring anything, and if that is unknown: the VM is not running, or its guest does
 * not answer. A VM without imported files, or with the person's own folder, has nothing to be pulled.
 *
 * @throws {SbxError} `vm.unlanded`
 */
export async function requireLanded(vm: Vm): Promise<void> {
  const { name } = vm.record;
  const found = await new Room(vm.paths.repository).read().catch((error) => error as SbxError);
  if (found === undefined || !(found instanceof Error) && found.is_live) return;
  if (found instanceof Error) throw unseen(name, found.message, found);
  const { state } = vm.state;
  if (state !== "Running") {
    throw unseen(
      name,
      `it is ${state}`,
      undefined,
      `sbx ${state === "Paused" ? "resume" : "start"} ${name}, then `,
    );
  }
  try {
    await using work = await collectWork(vm);
    const untaken = await Promise.all(work.units.map(untakenOf));
    const [commits, files] = (["commits", "files"] as const).map((key) =>
      untaken.reduce((sum, each) => sum + each[key], 0)
    );
    if (commits + files === 0) return;
    const parts = [commits > 0 && count(commits, "commit"), files > 0 && count(files, "changed file")];
    throw new SbxError(
      "vm.unlanded",
      `"${name}" has work on ${found.dir} that was not pulled: ${parts.filter(Boolean).join(", ")}`,
      { hint: `sbx diff ${name} shows it, sbx pull ${name} takes it; ${deleteHint(name)}` },
    );
  } catch (error) {
    if (error instanceof SbxError && error.code === "vm.unlanded") throw error;
    const { message } = asSbxError(error, `reading the work of ${name}`);
    throw unseen(name, message, error);
  }
}

function unseen(name: string, why: string, cause?: unknown, first = ""): SbxError {
  return new SbxError("vm.unlanded", `whether all work of "${name}" was pulled cannot be seen: ${why}`, {
    cause,
    hint: `${first}sbx diff ${name} shows its work, sbx pull ${name} takes it; ${deleteHint(name)}`,
  });
}

function deleteHint(name: string): string {
  return `sbx delete --force ${name} deletes it all the same`;
}
