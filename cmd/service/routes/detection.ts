import type { Hono } from "hono";
import {
  type BacktestRequest,
  type DetectionList,
  detectionRoutes,
  type DetectionStats,
  type EvidenceResult,
  type HuntRequest,
  type Propagation,
} from "../../../lib/api/mod.ts";
import type { CorpStore } from "../../../lib/corp/mod.ts";
import { compileOrThrow, planOf } from "../../../lib/detection/compile.ts";
import { irOfRule, type RuleInput } from "../../../lib/detection/live/rule_input.ts";
import { overlayView, packViews } from "../../../lib/detection/live/view.ts";
import { type DetectionIr, Matcher, mergeCounters } from "../../../lib/detection/mod.ts";
import { packOf, validationOf } from "../../../lib/detection/pack/pack.ts";
import { backtest } from "../../../lib/detection/replay/backtest.ts";
import { hunt } from "../../../lib/detection/replay/hunt.ts";
import { type LedgerEvent, PAGE_EVENTS_MAX, readEvents, readFindings } from "../../../lib/ledger/mod.ts";
import { corpLayer, type Detections, type Governance } from "../../../lib/supervisor/mod.ts";
import { handle } from "../handle.ts";
import type { LedgerOf } from "../ledger.ts";

/** Detections: checking them, trying them, and those that are in force (contracts.md §6). */
export function routeDetection(
  app: Hono,
  governance: Governance,
  detections: Detections,
  corp: CorpStore,
  ledgerOf: LedgerOf,
): void {
  let lastSync: number | null = null;

  handle(app, detectionRoutes.validate, ({ body }) => validationOf(packOf(body), "pack"));
  handle(app, detectionRoutes.compile, async ({ body }) => {
    const ir = await compileOrThrow(packOf(body));
    const { pack_id, pack_version, rules } = ir;
    return { compiled: true, pack_id, pack_version, rule_count: rules.length, ir, plan: planOf(ir) };
  });
  handle(app, detectionRoutes.backtest, async ({ body }): Promise<EvidenceResult> => {
    const { events, limit } = body as BacktestRequest;
    return backtest(await irsOf(body), events, { limit });
  });
  handle(app, detectionRoutes.hunt, async ({ params, body }): Promise<EvidenceResult> => {
    const irs = await irsOf(body);
    return await hunt(irs, eventsOf(await ledgerOf(params.id)), { limit: (body as HuntRequest).limit });
  });
  handle(app, detectionRoutes.findings, async ({ params, query }) => ({
    findings: await readFindings(await ledgerOf(params.id), query),
  }));
  handle(app, detectionRoutes.list, async (): Promise<DetectionList> => {
    const [{ contracts, counters }, { user }, overlays, ofCorp] = await Promise.all([
      governance.detections(),
      detections.irs(),
      detections.overlays(),
      corpLayer(corp),
    ]);
    const ofProfiles = new Map(
      contracts.flatMap(({ profile }) => profile.packs).map((ir) => [ir.pack_id, ir]),
    );
    const packs = (scope: "corp" | "profile" | "user", irs: Iterable<DetectionIr>) =>
      [...irs].flatMap((ir) => packViews(scope, ir, counters));
    return {
      kind: "detection",
      rules: [
        ...packs("corp", ofCorp.packs),
        ...packs("profile", ofProfiles.values()),
        ...packs("user", user),
        ...overlays.list().map((overlay) => overlayView(overlay, counters)),
      ],
    };
  });
  handle(app, detectionRoutes.put, async ({ body }) => {
    const overlays = await detections.overlays();
    const { contracts } = await governance.detections();
    const overlay = await overlays.put(body, (runtime) => {
      for (const { corp, profile, detection } of contracts) {
        new Matcher([...corp.packs, ...profile.packs, ...detection.user, ...runtime]);
      }
    });
    return { kind: "detection", rule: overlayView(overlay, []), propagation: await propagate() };
  });
  handle(app, detectionRoutes.delete, async ({ params: { id } }) => {
    await (await detections.overlays()).remove(id);
    return { kind: "detection", id, removed: true, propagation: await propagate() };
  });
  handle(app, detectionRoutes.stats, async ({ context }): Promise<DetectionStats> => {
    const { contracts, counters, failed } = await governance.detections();
    const listed = await (await app.request("/detection", { headers: context.req.raw.headers }))
      .json() as DetectionList;
    const scopes = new Map(listed.rules.map(({ id, pack_id, scope }) => [`${pack_id} ${id}`, scope]));
    const now = JSON.stringify((await detections.irs()).runtime);
    return {
      kind: "detection",
      rules: mergeCounters(counters).map(({ rule_id: id, pack_id, ...rest }) => ({
        id,
        pack_id,
        scope: scopes.get(`${pack_id} ${id}`) ?? "runtime",
        ...rest,
      })),
      sync: {
        target_count: contracts.length + failed.length,
        synced_count: contracts.filter(({ detection }) => JSON.stringify(detection.runtime) === now).length,
        failed_session_ids: failed,
        last_sync_unix_ms: lastSync,
      },
    };
  });

  /** Puts the overlays of now in force everywhere. */
  async function propagate(): Promise<Propagation> {
    const { refreshed, failed } = await governance.refreshDetections(await detections.irs());
    lastSync = Date.now();
    return {
      target_count: refreshed.length + failed.length,
      failed_session_count: failed.length,
      failed_session_ids: failed,
    };
  }
}

/** The IR of what a request brings. @throws {SbxError} `detection.invalid` */
async function irsOf(
  { pack, rule, rules }: { pack?: unknown; rule?: RuleInput; rules?: RuleInput[] },
): Promise<DetectionIr[]> {
  if (pack !== undefined) return [await compileOrThrow(packOf(pack))];
  return await Promise.all((rules ?? [rule!]).map(irOfRule));
}

/** A session's events, page after page. */
async function* eventsOf(ledger: string): AsyncGenerator<LedgerEvent> {
  for (let cursor: string | undefined = "0"; cursor !== undefined;) {
    const page = await readEvents(ledger, { cursor, limit: PAGE_EVENTS_MAX });
    yield* page.events;
    cursor = page.next_cursor;
  }
}
