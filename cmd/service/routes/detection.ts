import type { Hono } from "hono";
import {
  type BacktestRequest,
  detectionRoutes,
  type EvidenceResult,
  type HuntRequest,
} from "../../../lib/client/api/mod.ts";
import { compileOrThrow, planOf } from "../../../lib/detection/compile/mod.ts";
import { irOfInput, irOfRule, type RuleInput } from "../../../lib/detection/active/mod.ts";
import type { Compiled } from "../../../lib/detection/mod.ts";
import { packOf, validationOf } from "../../../lib/detection/pack/mod.ts";
import { backtest, hunt } from "../../../lib/detection/replay/mod.ts";
import {
  type ActiveDetections,
  eventsOf,
  type FindingTriage,
  type LedgerFinder,
} from "../../../lib/service/mod.ts";
import { handle, madeBy } from "../handle.ts";

/**
 * Routes of detections: validate, compile and try them, list the active ones
 * (docs/design/contracts/06-detection.md §6).
 */
export function routeDetection(
  app: Hono,
  active: ActiveDetections,
  triage: FindingTriage,
  findLedger: LedgerFinder,
): void {
  handle(app, detectionRoutes.validate, ({ body }) => validationOf(packOf(body), "pack"));
  handle(app, detectionRoutes.compile, async ({ body }) => {
    const ir = await compileOrThrow(packOf(body));
    const { pack_id, pack_version, rules } = ir;
    return { compiled: true, pack_id, pack_version, rule_count: rules.length, ir, plan: planOf(ir) };
  });
  handle(app, detectionRoutes.backtest, async ({ body }): Promise<EvidenceResult> => {
    const { events, limit } = body as BacktestRequest;
    return backtest(await compileInput(body), events, { limit });
  });
  handle(app, detectionRoutes.hunt, async ({ params, body }): Promise<EvidenceResult> => {
    const { limit } = body as HuntRequest;
    return await hunt(await compileInput(body), eventsOf(await findLedger(params.id)), { limit });
  });
  handle(
    app,
    detectionRoutes.findings,
    async ({ params, query }) => await triage.page(await findLedger(params.id), query),
  );
  handle(app, detectionRoutes.findingState, async ({ params, body, context }) => ({
    findings: await triage.change(await findLedger(params.id), body.findings, body.state, madeBy(context)),
  }));
  handle(
    app,
    detectionRoutes.findingExcept,
    async ({ params, body, context }) =>
      await triage.except(await findLedger(params.id), body, madeBy(context)),
  );
  handle(app, detectionRoutes.exceptions, async () => ({ exceptions: await triage.exceptions.list() }));
  handle(app, detectionRoutes.exceptionDelete, ({ params }) => triage.exceptions.remove(params.id));
  handle(app, detectionRoutes.list, () => active.list());
  handle(app, detectionRoutes.put, ({ body, context }) => active.put(body, madeBy(context)));
  handle(app, detectionRoutes.delete, ({ params, context }) => active.remove(params.id, madeBy(context)));
  handle(
    app,
    detectionRoutes.switchRule,
    ({ params, body, context }) => active.switchRule(params.id, body, madeBy(context)),
  );
  handle(app, detectionRoutes.stats, () => active.stats());
}

/** Compiles the pack, the rules or the Sigma files of a request. @throws {SbxError} `detection.invalid` */
async function compileInput(
  { pack, rule, rules, sigma }: {
    pack?: unknown;
    rule?: RuleInput;
    rules?: RuleInput[];
    sigma?: unknown;
  },
): Promise<Compiled[]> {
  if (sigma !== undefined) return [await irOfInput(sigma)];
  if (pack !== undefined) return [await compileOrThrow(packOf(pack))];
  return await Promise.all((rules ?? [rule!]).map(irOfRule));
}
