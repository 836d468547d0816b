import { dirname } from "node:path";
import { type NamedPaths, pathClass } from "../../event/mod.ts";
import type { SessionGate } from "../gate/mod.ts";
import type { ActivityFrame } from "../../machine/guest/mod.ts";
import { fileDraft } from "./draft.ts";
import { Fold } from "./fold.ts";
import type { KnownProcesses } from "./processes.ts";

type FileFrame = Extract<ActivityFrame, { t: "File" }>;
type Operation = FileFrame["operation"];

/** Stands for the folders without a count of their own. */
const ANYWHERE = "/";

/** Records operations of guest programs on files. Very many are counted by folder instead. */
export class FileRecord {
  readonly #gate: Pick<SessionGate, "observe">;
  readonly #processes: Pick<KnownProcesses, "get">;
  /** classes of the profile */
  readonly #named: () => NamedPaths;
  readonly #folders = new Fold((name) => nameOf(operationOf(name), ANYWHERE));
  /** by path: no flood of other files hides operations on a secret */
  readonly #secrets = new Fold((name) => nameOf(operationOf(name), ANYWHERE));

  constructor(
    gate: Pick<SessionGate, "observe">,
    processes: Pick<KnownProcesses, "get">,
    named: () => NamedPaths,
  ) {
    this.#gate = gate;
    this.#named = named;
    this.#processes = processes;
  }

  /** @returns false when it was counted @throws {SbxError} `ledger.unavailable` */
  take({ operation, path, from, pid, bytes }: FileFrame): boolean {
    const named = this.#named();
    const isSecret = [path, from ?? ""].some((each) => pathClass(each, named) === "secret");
    const isAdmitted = isSecret
      ? this.#secrets.admits(nameOf(operation, path))
      : this.#folders.admits(nameOf(operation, dirname(path)));
    if (!isAdmitted) return false;
    const activity = { operation, path, byte_count: bytes ?? 0 };
    const labels = { ...from !== undefined && { from } };
    this.#gate.observe(fileDraft(activity, labels, { named, program: this.#processes.get(pid) }));
    return true;
  }

  recordCounts(): void {
    const named = this.#named();
    for (const [name, { count }] of [...this.#folders.take(), ...this.#secrets.take()]) {
      const path = name.slice(operationOf(name).length + 1);
      const activity = { operation: operationOf(name), path, byte_count: 0 };
      this.#gate.observe(fileDraft(activity, { folded: String(count) }, { named }));
    }
  }
}

function nameOf(operation: Operation, folder: string): string {
  return `${operation} ${folder}`;
}

function operationOf(name: string): Operation {
  return name.slice(0, name.indexOf(" ")) as Operation;
}
