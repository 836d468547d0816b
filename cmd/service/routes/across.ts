import type { Hono } from "hono";
import { ignore } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import {
  policyRoutes,
  reportRoutes,
  sessionRoutes,
  type SignedCertificate,
} from "../../../lib/client/api/mod.ts";
import {
  asksAcross,
  chooseSessions,
  countAcross,
  findingsAcross,
  type FindingTriage,
  isChosen,
  type LedgerFinder,
  makeReport,
  mayHave,
  overviewOf,
  readAcross,
  type SessionChoice,
  type Sessions,
} from "../../../lib/service/mod.ts";
import { checkSeal, readMachineKey } from "../../../lib/release/signing/mod.ts";
import { verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { handle } from "../handle.ts";

/** Most sessions of a home that questions are about (docs/design/contracts/14-limits.md §14). */
const SESSIONS_MAX = 100_000;

/** Sessions of a list. */
const LISTED_MAX = 1000;

/** Routes of questions over the records of all sessions. */
export function routeAcross(
  app: Hono,
  { home, sessions, triage, registry }: {
    home: Home;
    registry: { all(): { record: { id: string } }[] };
    sessions: Pick<Sessions, "list">;
    triage: Pick<FindingTriage, "list">;
  },
  findLedger: LedgerFinder,
): void {
  const chosen = async (choice: SessionChoice) =>
    chooseSessions(home, await sessions.list(SESSIONS_MAX), choice);
  handle(app, sessionRoutes.list, async ({ query: { profile, vm, state, ...period } }) => {
    const entries = await sessions.list(SESSIONS_MAX);
    const found = entries.filter((entry) =>
      isChosen(entry, { profile, vm }) && mayHave(entry, period) &&
      (state === undefined || (state === "past") === (entry.ended_at !== undefined))
    );
    return { sessions: found.slice(0, LISTED_MAX) };
  });
  handle(
    app,
    sessionRoutes.across,
    async ({ query: { profile, vm, cursor, limit, order, ...conditions } }) =>
      await readAcross(await chosen({ profile, vm }), conditions, { cursor, limit, order }),
  );
  handle(
    app,
    sessionRoutes.counts,
    async ({ query: { profile, vm, step, ...conditions } }) =>
      await countAcross(await chosen({ profile, vm }), conditions, step),
  );
  handle(app, sessionRoutes.overview, async ({ query }) => {
    const vms = new Set(registry.all().map(({ record }) => record.id));
    return await overviewOf(await chosen({}), vms, query);
  });
  handle(
    app,
    policyRoutes.pastAsks,
    async ({ query: { profile, vm, limit, ...conditions } }) =>
      await asksAcross(await chosen({ profile, vm }), conditions, limit),
  );
  handle(
    app,
    sessionRoutes.findingsAcross,
    async ({ query: { profile, vm, ...conditions } }) =>
      await findingsAcross(
        await chosen({ profile, vm }),
        conditions,
        (ledger, limit) => triage.list(ledger, limit),
      ),
  );
  // One after another: each reads whole records.
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
    const made = last.catch(ignore("its own caller has the failure")).then(work);
    last = made;
    return await made;
  };
  handle(app, reportRoutes.make, async ({ query: { profile, vm, ...terms } }) => {
    const sessionsOf = await chosen({ profile, vm });
    const key = await readMachineKey(home);
    return await inTurn(() =>
      makeReport(sessionsOf, terms, {
        findings: (ledger, limit) => triage.list(ledger, limit),
        checkSeal: (seal) => checkSeal(seal, key ? [key] : [], false),
      })
    );
  });
  handle(app, sessionRoutes.certificate, async ({ params }): Promise<SignedCertificate> => {
    // Loaded late: the service starts without it.
    const { certifySession } = await import("../../../lib/lab/certify/mod.ts");
    const ledger = await findLedger(params.id);
    const { text } = await inTurn(() => certifySession(home, ledger));
    return JSON.parse(text);
  });
  handle(app, sessionRoutes.verify, async ({ params }) => {
    const ledger = await findLedger(params.id);
    const key = await readMachineKey(home);
    const { ok, events, sealed, signed_by, first_bad } = await inTurn(() =>
      verifyLedger(ledger, undefined, (seal) => checkSeal(seal, key ? [key] : [], false))
    );
    return {
      ok,
      events,
      sealed,
      ...(signed_by && { signed_by: { id: signed_by.id, trusted: signed_by.trusted } }),
      ...(first_bad && { first_bad }),
    };
  });
}
