/** Routes that answer from the records of all sessions, or from one whole record. */
import type { Hono } from "hono";
import { basename, dirname } from "node:path";
import { ignore } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import {
  type AcrossCosts,
  policyRoutes,
  reportRoutes,
  sessionRoutes,
  type SignedCertificate,
} from "../../../lib/client/api/mod.ts";
import {
  asksAcross,
  chooseSessions,
  costsAcross,
  countAcross,
  findingsAcross,
  type FindingTriage,
  flushRecords,
  isChosen,
  type LedgerFinder,
  makeReport,
  mayHave,
  overviewOf,
  readAcross,
  type SessionChoice,
  type Sessions,
  type Witnesses,
} from "../../../lib/service/mod.ts";
import { checkSeal, readMachineKey } from "../../../lib/release/signing/mod.ts";
import { verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { handle } from "../handle.ts";

/** Most sessions of a home that one question covers (docs/design/contracts/14-limits.md §14). */
const SESSIONS_MAX = 100_000;

/** Most sessions in a list. */
const LISTED_MAX = 1000;

/** Parts of the service that the routes ask. */
interface AcrossParts {
  home: Home;
  registry: { all(): Parameters<typeof flushRecords>[0] };
  sessions: Pick<Sessions, "list">;
  triage: Pick<FindingTriage, "list">;
  witnesses: Pick<Witnesses, "check" | "of" | "note">;
}

/** Adds the routes. */
export function routeAcross(app: Hono, parts: AcrossParts, findLedger: LedgerFinder): void {
  routeQuestions(app, parts);
  routeWholeRecords(app, parts, findLedger);
}

/** The sessions that a question is about. Their ledgers have every event that a message has named. */
async function choose({ home, sessions, registry }: AcrossParts, choice: SessionChoice) {
  const chosen = chooseSessions(home, await sessions.list(SESSIONS_MAX), choice);
  await flushRecords(registry.all(), chosen);
  return chosen;
}

/** Questions over the records of many sessions, answered by their indexes. */
function routeQuestions(app: Hono, parts: AcrossParts): void {
  const { sessions, triage, registry } = parts;
  handle(
    app,
    sessionRoutes.list,
    async ({ query: { profile, vm, state, limit = LISTED_MAX, cursor, ...period } }) => {
      const entries = await sessions.list(SESSIONS_MAX);
      // Among all: the list of running sessions has lost one that has ended since.
      const after = cursor === undefined ? -1 : entries.findIndex(({ id }) => id === cursor);
      if (cursor !== undefined && after < 0) {
        throw new SbxError("request.invalid", "cursor names a session that no list has", {
          hint: "read the list from its first page",
        });
      }
      const found = entries.slice(after + 1).filter((entry) =>
        isChosen(entry, { profile, vm }) && mayHave(entry, period) &&
        (state === undefined || (state === "past") === (entry.ended_at !== undefined))
      );
      const listed = found.slice(0, limit);
      return { sessions: listed, ...found.length > limit && { next_cursor: listed.at(-1)!.id } };
    },
  );
  handle(
    app,
    sessionRoutes.across,
    async ({ query: { profile, vm, cursor, limit, order, ...conditions } }) =>
      await readAcross(await choose(parts, { profile, vm }), conditions, { cursor, limit, order }),
  );
  handle(
    app,
    sessionRoutes.counts,
    async ({ query: { profile, vm, step, ...conditions } }) =>
      await countAcross(await choose(parts, { profile, vm }), conditions, step),
  );
  handle(app, sessionRoutes.overview, async ({ query }) => {
    const vms = new Set(registry.all().map(({ record }) => record.id));
    return await overviewOf(await choose(parts, {}), vms, query);
  });
  handle(app, sessionRoutes.costsAcross, async ({ query: { profile, vm, since } }): Promise<AcrossCosts> => {
    const { PRICES_NOTE } = await import("../../../lib/network/model/mod.ts");
    return { prices: PRICES_NOTE, ...await costsAcross(await choose(parts, { profile, vm }), since) };
  });
  handle(
    app,
    policyRoutes.pastAsks,
    async ({ query: { profile, vm, limit, ...conditions } }) =>
      await asksAcross(await choose(parts, { profile, vm }), conditions, limit),
  );
  handle(
    app,
    sessionRoutes.findingsAcross,
    async ({ query: { profile, vm, ...conditions } }) =>
      await findingsAcross(
        await choose(parts, { profile, vm }),
        conditions,
        (ledger, limit) => triage.list(ledger, limit),
      ),
  );
}

/** Reports, certificates and checks: one at a time, since each reads whole records. */
function routeWholeRecords(app: Hono, parts: AcrossParts, findLedger: LedgerFinder): void {
  const { home, triage, witnesses } = parts;
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
    const made = last.catch(ignore("its own caller has the failure")).then(work);
    last = made;
    return await made;
  };
  handle(app, reportRoutes.make, async ({ query: { profile, vm, ...terms } }) => {
    const chosen = await choose(parts, { profile, vm });
    const check = await sealCheck(home);
    return await inTurn(() =>
      makeReport(chosen, terms, {
        findings: (ledger, limit) => triage.list(ledger, limit),
        checkSeal: check,
        witnessOf: (id) => witnesses.of(id),
      })
    );
  });
  handle(app, sessionRoutes.certificate, async ({ params }): Promise<SignedCertificate> => {
    // Loaded late: the service starts without it.
    const { certifySession } = await import("../../../lib/lab/certify/mod.ts");
    const ledger = await findLedger(params.id);
    const { text } = await inTurn(async () =>
      await certifySession(home, ledger, undefined, await witnesses.of(sessionOf(ledger)))
    );
    return JSON.parse(text);
  });
  handle(app, sessionRoutes.verify, async ({ params }) => {
    const ledger = await findLedger(params.id);
    const check = await sealCheck(home);
    const id = sessionOf(ledger);
    await witnesses.check(id);
    const { ok, events, sealed, signed_by, witnessed, first_bad } = await inTurn(async () =>
      await verifyLedger(ledger, undefined, check, await witnesses.of(id))
    );
    if (first_bad?.code) witnesses.note(id, { code: first_bad.code, reason: first_bad.reason });
    return {
      ok,
      events,
      sealed,
      ...(signed_by && { signed_by: { id: signed_by.id, trusted: signed_by.trusted } }),
      ...(witnessed && { witnessed }),
      ...(first_bad && { first_bad }),
    };
  });
}

/** Session of a ledger of this home, whose folder is named by it. */
function sessionOf(ledger: string): string {
  return basename(dirname(ledger));
}

/** Check of seals by the key of this machine, where it has one. */
async function sealCheck(home: Home) {
  const key = await readMachineKey(home);
  return (seal: Parameters<typeof checkSeal>[0]) => checkSeal(seal, key ? [key] : [], false);
}
