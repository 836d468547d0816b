import type { Hono } from "hono";
import {
  type BacktestRequest,
  type DetectionList,
  detectionRoutes,
  type DetectionStats,
  type DetectionView,
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
import { corpLayer, type Detections, type Governance } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";
import { listedFindings } from "../../../lib/service/findings.ts";
import { eventsOf, type LedgerOf } from "../../../lib/service/ledger.ts";

/** What VMs that run have and have found. */
type Running = Awaited<ReturnType<Governance["detections"]>>;

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
    findings: await listedFindings(await ledgerOf(params.id), query.limit),
  }));
  handle(app, detectionRoutes.list, async (): Promise<DetectionList> => {
    return { kind: "detection", rules: await inForce(await governance.detections()) };
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
  handle(app, detectionRoutes.stats, async (): Promise<DetectionStats> => {
    const found = await governance.detections();
    const { contracts, counters, failed } = found;
    const rules = await inForce(found);
    const scopes = new Map(rules.map(({ id, pack_id, scope }) => [`${pack_id} ${id}`, scope]));
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

  /** Every detection that is in force, with what it has found. */
  async function inForce({ contracts, counters }: Running): Promise<DetectionView[]> {
    const [{ user }, overlays, ofCorp] = await Promise.all([
      detections.irs(),
      detections.overlays(),
      corpLayer(corp),
    ]);
    const ofProfiles = new Map(
      contracts.flatMap(({ profile }) => profile.packs).map((ir) => [ir.pack_id, ir]),
    );
    const packs = (scope: "corp" | "profile" | "user", irs: Iterable<DetectionIr>) =>
      [...irs].flatMap((ir) => packViews(scope, ir, counters));
    return [
      ...packs("corp", ofCorp.packs),
      ...packs("profile", ofProfiles.values()),
      ...packs("user", user),
      ...overlays.list().map((overlay) => overlayView(overlay, counters)),
    ];
  }

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
