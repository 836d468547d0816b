import { type Event, GUEST_WORKSPACE, newEventId, type ProcessActivity } from "../event/mod.ts";
import { Ledger, type LedgerDecision } from "../ledger/mod.ts";
import type { VmRecord } from "./record.ts";

/** What was put into the ledger, as watchers get it. */
export interface Recorded {
  event: Event;
  decision: LedgerDecision;
}

/** The program that an event tells of. */
interface Program {
  argv: string[];
  cwd?: string;
}

/** Makes the events of one session and puts them into its ledger. */
export class Recorder {
  #ledger: Ledger;
  #record: VmRecord;

  private constructor(ledger: Ledger, record: VmRecord) {
    this.#ledger = ledger;
    this.#record = record;
  }

  static async open(path: string, record: VmRecord): Promise<Recorder> {
    return new Recorder(await Ledger.open(path, { sessionId: record.id }), record);
  }

  /** A program that the host starts in the guest. @throws {SbxError} `ledger.unavailable`: what cannot be recorded is not run */
  executed(program: Program): Recorded {
    return this.#append("process.exec", { ...activity(program), operation: "exec" });
  }

  exited(program: Program, exit_code: number): Recorded {
    return this.#append("process.exit", { ...activity(program), operation: "exit", exit_code });
  }

  close(): Promise<void> {
    return this.#ledger.close();
  }

  #append(event_type: "process.exec" | "process.exit", activity: ProcessActivity): Recorded {
    const { id, profile_id, profile_revision } = this.#record;
    const event: Event = {
      schema_version: 1,
      common: {
        event_id: newEventId(),
        event_type,
        session_id: id,
        vm_id: id,
        profile_id,
        profile_revision,
        timestamp_unix_ms: Date.now(),
        sequence: 0,
        source_engine: "process",
        enforceability: event_type === "process.exec" ? "inline_blockable" : "observe_only",
        actor: "host",
        labels: {},
      },
      process: { activity },
    };
    const recorded = { event, decision: { decision: "allow" as const } };
    this.#ledger.append(recorded);
    return recorded;
  }
}

function activity({ argv, cwd = GUEST_WORKSPACE }: Program): Omit<ProcessActivity, "operation"> {
  return { executable: argv[0], command: argv.join(" "), argv, cwd };
}
