/**
 * The record of a session without a machine, for the host's work on its files
 * (docs/design/contracts/02-http.md §2, "Files"). Loaded when the host first moves one.
 */
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import type { SessionNotice } from "../gate/mod.ts";
import { fileDraft, type HostFile } from "../file_event.ts";
import type { Contract } from "../files/contract.ts";
import type { SessionPaths } from "../files/paths.ts";
import type { VmRecord } from "../files/record.ts";
import { uncollected } from "../recording.ts";
import {
  decideFile,
  type FileDecision,
  type FileRequest,
  type GateTerms,
  openGate,
  type RecordParts,
} from "../session_gate.ts";
import { liftDraft, liftStill } from "../response.ts";
import { Statements } from "../statement.ts";
import type { ResponseTerms } from "../../detection/response/mod.ts";
import type { AnsweredBy } from "../../policy/mod.ts";

/** The session whose record is opened. */
export interface StillOptions {
  home: Home;
  paths: Pick<SessionPaths, "ledger">;
  record: VmRecord;
  contract: Contract;
  tell(notice: SessionNotice): void;
  /** as in the options of a ledger */
  onHeads?: GateTerms["onHeads"];
}

/**
 * The open record of one session without a machine. A ledger has one writer: it is closed
 * before a process of the VM starts.
 */
export class StillRecord {
  readonly #parts: RecordParts;
  readonly #statements: Statements;

  private constructor(parts: RecordParts, statements: Statements) {
    this.#parts = parts;
    this.#statements = statements;
  }

  /** @throws {SbxError} `policy.invalid`, `detection.conflict`, or an error of opening the ledger */
  static async open({ home, paths, record, contract, tell, onHeads }: StillOptions): Promise<StillRecord> {
    const { url: _, auth_token_file: __, ...kept } = contract.ledger;
    const parts = await openGate({
      home,
      path: paths.ledger,
      record,
      // The service sends the rest of a session without a process to corp's collecting server.
      contract: { ...contract, ledger: kept },
      tell,
      onHeads,
      // The gate refuses events that cannot be recorded; no program runs that would have to pause.
      onUnrecorded: (error) => Promise.resolve(log.error(error.message)),
      onRecorded: () => Promise.resolve(),
    });
    try {
      await uncollected(paths.ledger, contract.ledger);
    } catch (error) {
      await closeParts(parts);
      throw error;
    }
    // An ask is refused: it would wait in no list.
    parts.gate.close();
    const { corp, profile } = contract;
    const statements = new Statements(parts.recording.ledger, record);
    statements.contract(contract, [corp.rules, profile.rules]);
    return new StillRecord(parts, statements);
  }

  /** Asks the rules about a file. @throws {SbxError} `ledger.unavailable` */
  async decideFile(request: FileRequest): Promise<FileDecision> {
    return await decideFile(this.#parts, request);
  }

  /** Records an operation of the host on files. */
  observeFile(file: HostFile): void {
    this.#parts.gate.observe(fileDraft(file, this.#parts.contract.profile.paths ?? {}));
  }

  /** Lifts what holds the VM back after a finding. @throws {SbxError} `response.none`, `response.corp` */
  lift(path: string, name: string, terms: ResponseTerms, by: AnsweredBy): void {
    liftStill(path, name, terms, (hold) => this.#parts.gate.observe(liftDraft(hold, by)));
  }

  /** States that the session has another image from its next start. */
  stateImage(...images: Parameters<Statements["image"]>): void {
    this.#statements.image(...images);
  }

  async close(): Promise<void> {
    await closeParts(this.#parts);
  }
}

async function closeParts({ broker, recording }: RecordParts): Promise<void> {
  await recording.close();
  await broker.close();
}
