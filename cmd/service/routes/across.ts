import type { Hono } from "hono";
import type { Home } from "../../../lib/base/home/mod.ts";
import { sessionRoutes } from "../../../lib/client/api/mod.ts";
import {
  chooseSessions,
  findingsAcross,
  type FindingTriage,
  readAcross,
  type SessionChoice,
  type Sessions,
} from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Most sessions of a home that questions are about (docs/design/contracts/14-limits.md §14). */
const SESSIONS_MAX = 100_000;

/** Routes of questions over the records of all sessions. */
export function routeAcross(
  app: Hono,
  { home, sessions, triage }: {
    home: Home;
    sessions: Pick<Sessions, "list">;
    triage: Pick<FindingTriage, "list">;
  },
): void {
  const chosen = async (choice: SessionChoice) =>
    chooseSessions(home, await sessions.list(SESSIONS_MAX), choice);
  handle(
    app,
    sessionRoutes.across,
    async ({ query: { profile, vm, cursor, limit, ...conditions } }) =>
      await readAcross(await chosen({ profile, vm }), conditions, { cursor, limit }),
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
}
