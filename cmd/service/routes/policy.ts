/**
 * Routes of rules, of decisions on single events, and of pending asks (docs/design/contracts/02-http.md §2).
 */
import type { Hono } from "hono";
import {
  type AskRule,
  policyRoutes,
  RULE_CHANGES_MAX,
  type RuleChanges,
  type RuleList,
  type RuleSaved,
  type RuleUndone,
  type TryResult,
} from "../../../lib/client/api/mod.ts";
import type { PolicyContext } from "../../../lib/event/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Rule } from "../../../lib/policy/mod.ts";
import {
  chooseSessions,
  findChange,
  flushRecords,
  hitsAcross,
  type LedgerFinder,
  ruleDigest,
  ruleOfAsk,
  type Service,
  type TriedOn,
  tryDraft,
} from "../../../lib/service/mod.ts";
import { handle, madeBy } from "../handle.ts";

/** A rule as the API shows it. */
type RuleView = Omit<Rule, "match_line"> & { digest: string };

/** Parts of the service that these routes use. */
type PolicyParts = Pick<
  Service,
  "rules" | "refresh" | "inForce" | "asks" | "registry" | "activeDetections" | "sessions"
>;

/** Most sessions of a home, the newest ones, whose events a draft is tried on and hits are counted in. */
const SESSIONS_MAX = 1000;

/**
 * Routes of rules, of their evaluation on one event, and of pending asks (docs/design/contracts/02-http.md
 * §2, §5).
 */
export function routePolicy(
  app: Hono,
  { rules, refresh, inForce, asks, registry, activeDetections, sessions }: PolicyParts,
  findLedger: LedgerFinder,
): void {
  handle(app, policyRoutes.listRules, async ({ params }): Promise<RuleList> => {
    const policy = await rules.policyOf(params.id);
    const vms = await inForce.list(params.id);
    return {
      rules: policy.all.map(({ rule }) => viewOf(rule)),
      disabled: (await rules.all(params.id)).filter(({ enabled }) => !enabled).map(viewOf),
      editable: await rules.editable(params.id),
      lints: await rules.lint(policy, { notes: true }),
      vms: vms.map(({ vm: { record: { id, name } }, ...rest }) => ({ id, name, ...rest })),
    };
  });
  handle(app, policyRoutes.getRule, async ({ params }) => await findRule(params.id, params.rule_id));
  handle(app, policyRoutes.createRule, async ({ params, body: { rule_id, rule }, context }) => {
    await rules.create(params.id, rule_id, rule, madeBy(context));
    return await savedRule(params.id, rule_id);
  });
  handle(app, policyRoutes.putRule, async ({ params, body, query, context }) => {
    await rules.put(params.id, params.rule_id, body, madeBy(context), query.digest);
    return await savedRule(params.id, params.rule_id);
  });
  handle(app, policyRoutes.changes, async ({ query: { profile, limit } }): Promise<RuleChanges> => ({
    changes: (await rules.changes(profile)).slice(0, limit ?? RULE_CHANGES_MAX),
  }));
  handle(app, policyRoutes.undoChange, async ({ params, context }): Promise<RuleUndone> => {
    const change = await findChange(rules.record, params.change_id);
    if (change.kind === "rule") {
      await rules.undo(change, madeBy(context));
      await refresh.refreshProfile(change.profile_id);
    } else await activeDetections.undo(change, madeBy(context));
    const undone = (await rules.record.list()).findLast(({ undoes }) => undoes === change.change_id);
    return { ...(undone && { change: undone }) };
  });
  handle(app, policyRoutes.deleteRule, async ({ params, query, context }) => {
    await rules.delete(params.id, params.rule_id, madeBy(context), query.digest);
    await refresh.refreshProfile(params.id);
    return { id: params.rule_id, deleted: true as const };
  });
  handle(app, policyRoutes.reload, async ({ params }) => {
    const vm = registry.get(params.id);
    await rules.noticeFiles();
    await refresh.reloadProfile(vm);
    return (await inForce.of(vm))!;
  });
  handle(app, policyRoutes.evaluate, async ({ params, body }) => {
    const { completeEvent } = await import("../../../lib/policy/author/mod.ts");
    // The definition of the route has checked it, as a record since the generator of
    // OpenAPI takes no recursive schema.
    const complete = completeEvent(body.event as unknown as PolicyContext);
    const policy = await (body.draft ? rules.policyWith(params.id, body.draft) : rules.policyOf(params.id));
    const { decision, findings, event, failures } = policy.evaluate(complete, { explain: true });
    return { decision, findings, failures, ...(event !== complete && { event }) };
  });
  handle(app, policyRoutes.tryRule, async ({ params, body, context }): Promise<TryResult> => {
    const { session, since, limit, ...draft } = body;
    return await tryDraft(rules, params.id, draft, {
      on: await triedOn(params.id, session, since),
      limit,
      signal: context.req.raw.signal,
    });
  });
  handle(app, policyRoutes.ruleHits, async ({ params, query: { since } }) => {
    // A profile that is not there is named as such.
    await rules.policyOf(params.id);
    const listed = await sessions.list(SESSIONS_MAX);
    const own = listed.filter(({ profile_id }) => profile_id === params.id);
    const chosen = chooseSessions(rules.home, own, {});
    await flushRecords(registry.all(), chosen);
    return await hitsAcross(chosen, since);
  });
  handle(app, policyRoutes.asks, async () => ({ asks: await asks.list() }));
  handle(app, policyRoutes.asksInForce, async () => {
    const { asks: inForce, unreadable } = await asks.inForce();
    const named = inForce.map((ask) => ({ ...ask, vm: nameOf(ask.session_id) }));
    return { asks: named, unreadable };
  });
  handle(app, policyRoutes.withdrawAnswer, async ({ params, context }) => {
    const answer = await asks.withdraw(params.id, madeBy(context));
    return { ...answer, vm: nameOf(answer.session_id) };
  });
  handle(
    app,
    policyRoutes.resolveAsk,
    ({ params, body, context }) => asks.resolve(params.id, body, madeBy(context)),
  );

  handle(
    app,
    policyRoutes.askRule,
    ({ params, query }): Promise<AskRule> =>
      ruleOfAsk(params.id, { asks, rules, findLedger }, query.of, query.path),
  );

  /** Finds the events that a draft of a profile's rule is tried on. */
  async function triedOn(profile: string, session?: string, since?: number): Promise<TriedOn | undefined> {
    if (since === undefined) return session === undefined ? undefined : { ledger: await findLedger(session) };
    const listed = await sessions.list(SESSIONS_MAX);
    const own = listed.filter(({ profile_id }) => session !== undefined || profile_id === profile);
    const chosen = chooseSessions(rules.home, own, { vm: session });
    await flushRecords(registry.all(), chosen);
    return { sessions: chosen, since };
  }

  /** Name of a running VM; the id of one that has ended meanwhile. */
  function nameOf(session: string): string {
    return registry.alive().find(({ record }) => record.id === session)?.record.name ?? session;
  }

  async function savedRule(profileId: string, ruleId: string): Promise<RuleSaved> {
    await refresh.refreshProfile(profileId);
    const policy = await rules.policyOf(profileId);
    const lints = (await rules.lint(policy)).filter(({ rule_id }) => rule_id === ruleId);
    return { rule: await findRule(profileId, ruleId, "profile"), lints };
  }

  async function findRule(profileId: string, ruleId: string, layer?: string): Promise<RuleView> {
    const { all: active } = await rules.policyOf(profileId);
    const match = active.find(({ rule }) => rule.id === ruleId && (!layer || rule.layer === layer));
    if (match) return viewOf(match.rule);
    const disabled = (await rules.all(profileId)).find(({ id }) => id === ruleId);
    if (disabled) return viewOf(disabled);
    throw new SbxError("policy.rule.not_found", `profile "${profileId}" has no rule "${ruleId}"`, {
      hint: `GET /profiles/${profileId}/enforcement/rules/list lists the rules in force`,
    });
  }
}

function viewOf(rule: Rule): RuleView {
  const { match_line: _, ...view } = rule;
  return { ...view, digest: ruleDigest(rule) };
}
