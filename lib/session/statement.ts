/**
 * Statements of the host in a session's record: boots, active rules, changes of image and clock, failed
 * services and reached limits (docs/design/contracts/12-ledger.md §12).
 */
import { blake3 } from "../base/hash/mod.ts";
import { canonicalJson } from "../base/json/mod.ts";
import { log } from "../base/log/mod.ts";
import { BUILD_HASH, VERSION } from "../base/version/mod.ts";
import { newEventId } from "../event/mod.ts";
import type { MachineInfo } from "./ipc/mod.ts";
import type { VmLimits } from "../machine/limit/mod.ts";
import type { Ledger } from "../ledger/mod.ts";
import type { Rule } from "../policy/mod.ts";
import { type Contract, detectionsOf } from "./files/contract.ts";
import type { VmRecord } from "./files/record.ts";

interface StatementBase {
  statement_id: string;
  at_unix_ms: number;
  /** sequence number of the last event before the statement */
  after_sequence: number;
}

/** A machine was started or resumed. */
export interface BootStatement extends StatementBase {
  kind: "boot";
  sbx: { version: string; build: string };
  accelerator: string;
  /** `cold`, `template`, `resume`, `fork` or `unknown` */
  started: string;
  cpus: number;
  ram_mb: number;
  /**
   * `hashes`: BLAKE3 of the boot files, checked before the boot; absent in records of an older sbx.
   * `reference` and `digest`: of an OCI image
   */
  image: { version: string; hashes?: Record<string, string>; reference?: string; digest?: string };
}

/** A VM got another image for its next start, below the changes on its disk. */
export interface ImageStatement extends StatementBase {
  kind: "image";
  /** absent: the image of the profile's packages */
  image?: NamedImage;
  /** image until then; absent: that of the profile's packages */
  before?: NamedImage;
}

/** An OCI image. */
interface NamedImage {
  reference: string;
  digest: string;
}

/** A contract became active; hashes are BLAKE3 of canonical JSON. */
export interface ContractStatement extends StatementBase {
  kind: "contract";
  profile_id: string;
  profile_revision: string;
  profile_hash: string;
  corp_hash: string;
  /** of all rules in order of decision, including access that people allowed meanwhile */
  rules_hash: string;
  detections_hash: string;
}

/** The clock of the host jumped while the machine ran: the host slept, or its clock was set. */
export interface ClockStatement extends StatementBase {
  kind: "clock";
  /** `ms`; negative if the clock went back */
  jump_ms: number;
}

/** A service of the VM failed, and is not started again. */
export interface ServiceStatement extends StatementBase {
  kind: "service";
  name: string;
  state: "failed";
  reason: string;
}

/** The VM reached one of its limits for the first time since its start. */
export interface LimitStatement extends StatementBase {
  kind: "limit";
  /** key of `[vm.limits]`, and its value */
  limit: string;
  value: number;
}

export type SessionStatement =
  | BootStatement
  | ClockStatement
  | ContractStatement
  | ImageStatement
  | LimitStatement
  | ServiceStatement;

/** Writes the statements of one session. */
export class Statements {
  readonly #ledger: Ledger;
  readonly #record: VmRecord;
  /** the last contract's statement, as JSON */
  #lastContract = "";
  /** limits that were stated */
  readonly #reached = new Set<string>();

  constructor(ledger: Ledger, record: VmRecord) {
    this.#ledger = ledger;
    this.#record = record;
  }

  /** States that a machine was started or resumed. */
  boot({ accelerator = "unknown", started }: Pick<MachineInfo, "accelerator" | "started">): void {
    const { cpus, ram_mb, assets: { version, hashes }, environment } = this.#record;
    this.#write<BootStatement>({
      kind: "boot",
      sbx: { version: VERSION, build: BUILD_HASH },
      accelerator,
      started: started?.by ?? "unknown",
      cpus,
      ram_mb,
      image: { version, ...(hashes && { hashes }), ...(environment && named(environment)) },
    });
  }

  /** States that the host's clock has jumped by `ms`. */
  clock(ms: number): void {
    this.#write<ClockStatement>({ kind: "clock", jump_ms: ms });
  }

  /** States that the VM boots `image` from its next start, instead of `before`. */
  image(image: NamedImage | undefined, before: NamedImage | undefined): void {
    this.#write<ImageStatement>({
      kind: "image",
      ...(image && { image: named(image) }),
      ...(before && { before: named(before) }),
    });
  }

  /** States that a service has failed for good. */
  serviceFailed(name: string, reason: string): void {
    this.#write<ServiceStatement>({ kind: "service", name, state: "failed", reason });
  }

  /** States that a limit holds the VM back; once for each limit. */
  limitReached(limit: keyof VmLimits): void {
    const value = this.#record.limits?.[limit];
    if (value === undefined || this.#reached.has(limit)) return;
    this.#reached.add(limit);
    this.#write<LimitStatement>({ kind: "limit", limit, value });
  }

  /** States the active contract, unless it is the last one stated. @param rules all rules, by layer */
  contract(contract: Contract, rules: readonly (readonly Rule[])[]): void {
    const { profile, corp } = contract;
    const { profile_id, profile_revision } = this.#record;
    const hashes = {
      profile_id,
      profile_revision: profile.revision ?? profile_revision,
      profile_hash: hashOf(profile),
      corp_hash: hashOf(corp),
      rules_hash: hashOf(rules),
      detections_hash: hashOf(detectionsOf(contract)),
    };
    const text = JSON.stringify(hashes);
    if (text === this.#lastContract) return;
    this.#lastContract = text;
    this.#write<ContractStatement>({ kind: "contract", ...hashes });
  }

  /** A failure is only logged: where no statement can be written, the gate refuses every event too. */
  #write<T extends SessionStatement>(content: Omit<T, keyof StatementBase> & { kind: T["kind"] }): void {
    const record = {
      statement_id: newEventId(),
      at_unix_ms: Date.now(),
      after_sequence: this.#ledger.sequence,
      ...content,
    };
    try {
      this.#ledger.add({ rows: [{ table: "statements", record }] });
    } catch (error) {
      log.warn(error);
    }
  }
}

function named({ reference, digest }: NamedImage): NamedImage {
  return { reference, digest };
}

function hashOf(value: unknown): string {
  return blake3(canonicalJson(value));
}
