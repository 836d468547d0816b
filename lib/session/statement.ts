/**
 * The host's statements in a session's record: how it booted, and which rules were active when
 * (docs/design/contracts/12-ledger.md §12).
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
  /** last event before it */
  after_sequence: number;
}

/** A machine was started, or went on. */
export interface BootStatement extends StatementBase {
  kind: "boot";
  sbx: { version: string; build: string };
  accelerator: string;
  /** `cold`, `template`, `resume` or `fork` */
  started: string;
  cpus: number;
  ram_mb: number;
  /**
   * BLAKE3 of the files that it was started from, checked before the boot; absent: recorded by an older sbx
   */
  image: { version: string; hashes?: Record<string, string>; reference?: string; digest?: string };
}

/**
 * A VM that has ended got another image for its next start, below the changes on its
 * disk; each absent: of packages.
 */
export interface ImageStatement extends StatementBase {
  kind: "image";
  image?: { reference: string; digest: string };
  before?: { reference: string; digest: string };
}

/** A contract was activated; hashes are BLAKE3 of canonical JSON. */
export interface ContractStatement extends StatementBase {
  kind: "contract";
  profile_id: string;
  profile_revision: string;
  profile_hash: string;
  corp_hash: string;
  /** rules of corp and profile, and access that people allowed meanwhile, as they decide */
  rules_hash: string;
  detections_hash: string;
}

/** The clock of the host jumped while the machine ran: the host slept, or its clock was set. */
export interface ClockStatement extends StatementBase {
  kind: "clock";
  /** `ms` by which it went ahead; negative: back */
  jump_ms: number;
}

/** A service of the VM is not started again. */
export interface ServiceStatement extends StatementBase {
  kind: "service";
  name: string;
  state: "failed";
  reason: string;
}

/** The VM was held back by one of its limits for the first time since its start. */
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
  /** hashes of the contract that was stated last */
  #last = "";
  readonly #reached = new Set<string>();

  constructor(ledger: Ledger, record: VmRecord) {
    this.#ledger = ledger;
    this.#record = record;
  }

  /** States that a machine runs. */
  boot({ accelerator = "unknown", started }: Pick<MachineInfo, "accelerator" | "started">): void {
    const { cpus, ram_mb, assets: { version, hashes }, environment } = this.#record;
    this.#write<BootStatement>({
      kind: "boot",
      sbx: { version: VERSION, build: BUILD_HASH },
      accelerator,
      started: started?.by ?? "unknown",
      cpus,
      ram_mb,
      image: { version, ...(hashes && { hashes }), ...named(environment) },
    });
  }

  /** States that the host's clock has jumped by `ms`. */
  clock(ms: number): void {
    this.#write<ClockStatement>({ kind: "clock", jump_ms: ms });
  }

  /** States that another image is the VM's from its next start. */
  image(image: NamedImage | undefined, before: NamedImage | undefined): void {
    this.#write<ImageStatement>({
      kind: "image",
      ...(image && { image: named(image) as NamedImage }),
      ...(before && { before: named(before) as NamedImage }),
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

  /** States the active contract, unless stated already. @param rules all that decide, in layers */
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
    if (text === this.#last) return;
    this.#last = text;
    this.#write<ContractStatement>({ kind: "contract", ...hashes });
  }

  /**
   * A record that takes no statement takes no event either: the gate refuses all until it is written again.
   */
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

/** An image in a statement. */
interface NamedImage {
  reference: string;
  digest: string;
}

function named(image: NamedImage | undefined): Partial<NamedImage> {
  return image ? { reference: image.reference, digest: image.digest } : {};
}

function hashOf(value: unknown): string {
  return blake3(canonicalJson(value));
}
