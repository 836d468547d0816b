import { basename, dirname } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import type {
  FindingExcept,
  FindingException,
  FindingStateChange,
  ListedFinding,
} from "../../client/api/mod.ts";
import { type FindingFilter, readFindingRowsOf } from "../../ledger/read/mod.ts";
import type { AnsweredBy } from "../../policy/mod.ts";
import { factsOf, FindingExceptions } from "./exceptions.ts";
import type { FindingExport } from "./export.ts";
import { listFindings, pageOfFindings } from "./ledger.ts";
import type { Sessions } from "./sessions.ts";
import { changeStates, idsOf } from "./triage.ts";

const DAY_MS = 24 * 3600 * 1000;

/**
 * What people do with findings: states, and exceptions (docs/design/contracts/06-detection.md §6, "Triage").
 */
export class FindingTriage {
  readonly exceptions: FindingExceptions;
  readonly #sessions: Pick<Sessions, "get">;
  readonly #export: Pick<FindingExport, "sendStates">;

  constructor(home: Home, sessions: Pick<Sessions, "get">, findings: Pick<FindingExport, "sendStates">) {
    this.exceptions = new FindingExceptions(home);
    this.#sessions = sessions;
    this.#export = findings;
  }

  /** Findings of a session, oldest first. */
  list(ledger: string, limit?: number): Promise<ListedFinding[]> {
    return listFindings(ledger, this.#sessions, limit, this.exceptions);
  }

  /** A page of the findings of a session. */
  page(ledger: string, filter: FindingFilter): ReturnType<typeof pageOfFindings> {
    return pageOfFindings(ledger, this.#sessions, filter, this.exceptions);
  }

  /** Gives findings a state, and sends it to the sinks. @throws {SbxError} `findings.not_found` */
  async change(
    ledger: string,
    named: readonly string[],
    change: FindingStateChange,
    by: AnsweredBy,
  ): Promise<string[]> {
    const ids = await changeStates(ledger, named, change, by);
    this.#export.sendStates(basename(dirname(ledger)), ids);
    return ids;
  }

  /** Makes an exception from a finding. @throws {SbxError} `findings.not_found`, `findings.no_property` */
  async except(
    ledger: string,
    { finding, of, days, reason }: FindingExcept,
    by: AnsweredBy,
  ): Promise<FindingException> {
    const [id] = await idsOf(ledger, [finding]);
    const [row] = await readFindingRowsOf(ledger, [id]);
    if (!row) throw new SbxError("findings.not_found", `the event of the finding "${id}" is not on record`);
    const entry = await this.#sessions.get(basename(dirname(ledger))).catch(() => undefined);
    const { rule_id, pack_id } = row.finding as unknown as ListedFinding;
    const facts = factsOf({ rule_id, pack_id }, row.event, entry?.name);
    const named = Object.fromEntries(of.map((property) => {
      const value = facts[property];
      if (value !== undefined) return [property, value];
      throw new SbxError("findings.no_property", `the event of the finding has no ${property}`, {
        hint: "except another of its host, program and vm: sbx why EVENT shows the event",
      });
    }));
    const expires = new Date(Date.now() + days * DAY_MS).toISOString();
    return await this.exceptions.add({
      rule: rule_id,
      pack: pack_id,
      ...named,
      reason,
      by: by.user,
      expires,
    });
  }
}
