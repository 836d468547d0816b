import { dirname } from "node:path";
import { type FileActivity, fileNameOf, pathClass } from "../../event/mod.ts";
import type { SessionGate } from "../../gate/mod.ts";
import type { ActivityFrame } from "../../guest/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import { Fold } from "./fold.ts";
import type { KnownProcesses } from "./processes.ts";

type FileFrame = Extract<ActivityFrame, { t: "File" }>;
type Operation = FileFrame["operation"];

/** Stands for the folders without a count of their own. */
const ANYWHERE = "/";

/** Records what programs of a guest do with files. Of very many, operations in each folder are counted. */
export class FileRecord {
  readonly #gate: Pick<SessionGate, "observe">;
  readonly #processes: Pick<KnownProcesses, "get">;
  readonly #folders = new Fold((name) => nameOf(operationOf(name), ANYWHERE));
  /** by path: no flood of other files hides what is done to a secret */
  readonly #secrets = new Fold((name) => nameOf(operationOf(name), ANYWHERE));

  constructor(gate: Pick<SessionGate, "observe">, processes: Pick<KnownProcesses, "get">) {
    this.#gate = gate;
    this.#processes = processes;
  }

  /** @returns false when it was counted @throws {SbxError} `ledger.unavailable` */
  take({ operation, path, from, pid, bytes }: FileFrame): boolean {
    const isSecret = [path, from ?? ""].some((each) => pathClass(each) === "secret");
    const isAdmitted = isSecret
      ? this.#secrets.admits(nameOf(operation, path))
      : this.#folders.admits(nameOf(operation, dirname(path)));
    if (!isAdmitted) return false;
    const known = this.#processes.get(pid);
    const draft = fileDraft(operation, path, bytes ?? 0, {
      ...from !== undefined && { from },
      ...known?.event_id !== undefined && { event_id: known.event_id },
    });
    if (known) draft.common.process = known.process;
    this.#gate.observe(draft);
    return true;
  }

  recordCounts(): void {
    for (const [name, { count }] of [...this.#folders.take(), ...this.#secrets.take()]) {
      const path = name.slice(operationOf(name).length + 1);
      this.#gate.observe(fileDraft(operationOf(name), path, 0, { folded: String(count) }));
    }
  }
}

function nameOf(operation: Operation, folder: string): string {
  return `${operation} ${folder}`;
}

function operationOf(name: string): Operation {
  return name.slice(0, name.indexOf(" ")) as Operation;
}

function fileDraft(
  operation: Operation,
  path: string,
  byte_count: number,
  labels: Record<string, string>,
): Draft {
  const activity: FileActivity = {
    operation,
    path,
    path_class: pathClass(path),
    ...fileNameOf(path),
    byte_count,
  };
  return {
    common: { event_type: "file.activity", source_engine: "file", actor: "vm", labels },
    file: { activity },
  };
}
