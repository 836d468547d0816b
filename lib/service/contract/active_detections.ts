/** Active detections of running VMs: a view of them, and changes to the runtime overlays. */
import type {
  DetectionList,
  DetectionStats,
  DetectionView,
  OverlayRemoved,
  OverlayRequest,
  OverlaySaved,
  Propagation,
  RuleSwitch,
  RuleSwitched,
} from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import {
  isRuleInput,
  isSigmaSource,
  type OffById,
  type OverlayInput,
  type OverlayRecorder,
  overlayView,
  packViews,
} from "../../detection/active/mod.ts";
import {
  type Compiled,
  dropDuplicates,
  Matcher,
  maySwitchOff,
  mergeCounters,
  type RuleCounter,
  rulesOf,
} from "../../detection/mod.ts";
import type { DetectionChange } from "../../policy/author/schema.ts";
import type { AnsweredBy } from "../../policy/mod.ts";
import { type Contract, readContract } from "../../session/mod.ts";
import { listProfiles } from "../../config/profile/mod.ts";
import { corpLayer, type Detections, profileLayer } from "../../home/mod.ts";
import type { ContractRefresh } from "./refresh.ts";
import type { Registry } from "../vm/registry.ts";
import { isSame, RuleRecord } from "./rules.ts";
import { join } from "node:path";
import { log } from "../../base/log/mod.ts";
import { countFindings } from "../../ledger/read/mod.ts";

/** Sources of the active detections. */
export interface ActiveDetectionSources {
  home: Home;
  registry: Registry;
  detections: Detections;
  corp: CorpStore;
  refresh: ContractRefresh;
}

/** Contracts of the running VMs, and match counters of all sessions. */
interface Survey {
  contracts: Contract[];
  counters: RuleCounter[];
  /** ids of sessions that did not reply */
  failed: string[];
}

/** Active detections of the running VMs of one home (docs/design/contracts/06-detection.md §6). */
export class ActiveDetections {
  readonly #sources: ActiveDetectionSources;
  readonly #past: PastMatches;
  readonly #record: RuleRecord;
  /** unix milliseconds */
  #lastSync: number | null = null;

  constructor(sources: ActiveDetectionSources) {
    this.#sources = sources;
    this.#record = new RuleRecord(sources.home);
    this.#past = new PastMatches(sources.home);
  }

  /** Every active detection, with its matches. */
  async list(): Promise<DetectionList> {
    return { kind: "detection", rules: await this.#views(await this.#survey()) };
  }

  /**
   * Adds an overlay, or with `replace` updates the one of the same id.
   * @throws {SbxError} `detection.invalid`, `detection.conflict`
   */
  async put(
    { replace, ...request }: OverlayRequest,
    by: AnsweredBy,
    undoes?: DetectionChange,
  ): Promise<OverlaySaved> {
    const overlays = await this.#sources.detections.overlays();
    const { contracts } = await this.#survey();
    const [{ user }, corpTerms] = await Promise.all([
      this.#sources.detections.irs(),
      corpLayer(this.#sources.corp),
    ]);
    const overlay = await overlays.put(request as OverlayInput, (added, others) => {
      // Only the new one is judged: others that conflict are left out already.
      const profiles = contracts.flatMap(({ profile }) => profile.packs);
      const { irs } = dropDuplicates([...corpTerms.packs, ...profiles, ...user, ...others]);
      new Matcher([...irs, added]);
    }, { replaces: replace, record: this.#recorder(by, undoes) });
    return { kind: "detection", rule: overlayView(overlay, []), propagation: await this.#propagate() };
  }

  /** Removes an overlay. @throws {SbxError} `detection.not_found` */
  async remove(id: string, by: AnsweredBy, undoes?: DetectionChange): Promise<OverlayRemoved> {
    await (await this.#sources.detections.overlays()).remove(id, this.#recorder(by, undoes));
    return { kind: "detection", id, removed: true, propagation: await this.#propagate() };
  }

  /**
   * Restores an overlay to its state before a change.
   *
   * @throws {SbxError} `policy.change.conflict`: it has changed since; as {@linkcode put}
   */
  async undo(change: DetectionChange, by: AnsweredBy): Promise<void> {
    const { detection_id: id, before, pack_id } = change;
    if (pack_id !== undefined && before) {
      const { enabled, reason } = before;
      return void await this.switchRule(id, { enabled, reason }, by, change);
    }
    if (!before) return void await this.remove(id, by, change);
    const { definition, enabled } = before;
    const input = isRuleInput(definition)
      ? { rule: definition }
      : isSigmaSource(definition)
      ? { sigma: definition }
      : { pack: definition };
    await this.put({ ...input, enabled, replace: true } as OverlayRequest, by, change);
  }

  /**
   * Switches a rule of a pack off or on, in running VMs too. Corp's rules have no switch.
   *
   * @throws {SbxError} `detection.not_found`, `detection.corp`, `detection.disabled`: the file of switches is
   * not valid; `policy.change.conflict`: the rule was switched since the change that is taken back
   */
  async switchRule(
    id: string,
    { enabled, reason }: RuleSwitch,
    by: AnsweredBy,
    undoes?: DetectionChange,
  ): Promise<RuleSwitched> {
    const { off } = this.#sources.detections;
    const [known, { contracts }] = await Promise.all([off.list(), this.#survey()]);
    const was = known.find((each) => each.id === id);
    if (undoes && undoes.after?.enabled !== (was === undefined)) throw changedSince(undoes);
    const found = await this.#ruleOf(id, contracts);
    if (!found && !(enabled && was)) {
      throw new SbxError("detection.not_found", `no pack has a rule ${JSON.stringify(id)}`, {
        hint: "sbx detection list shows the rules of packs",
      });
    }
    if (!enabled && found && !found.may) {
      throw new SbxError("detection.corp", `the rule "${id}" of the pack "${found.pack_id}" is corp's`, {
        hint:
          "ask your administrator, or make an exception from one of its findings (docs/guides/detection.md)",
      });
    }
    const pack_id = found?.pack_id ?? "";
    if (enabled !== (was === undefined)) {
      const state = (on: boolean, why?: string) => ({
        definition: found?.rule ?? { id },
        enabled: on,
        ...(why !== undefined && { reason: why }),
      });
      await this.#record.add([{
        kind: "detection",
        detection_id: id,
        pack_id,
        by,
        before: state(was === undefined, was?.reason),
        after: state(enabled, reason),
        ...(undoes && { undoes: undoes.change_id }),
      }]);
      await (enabled
        ? off.remove(id)
        : off.add({ id, reason: reason!, by: by.user, at: new Date().toISOString() }));
    }
    return { kind: "detection", id, pack_id, enabled, propagation: await this.#propagate() };
  }

  /** The rule of an id in the packs that count now, corp's first. */
  async #ruleOf(id: string, contracts: readonly Contract[]) {
    const overlays = await this.#sources.detections.overlays();
    const runtime = overlays.list().flatMap(({ ir }) => ir ?? []);
    const packs = [...await this.#packs(contracts), ["runtime", runtime] as const];
    for (const [scope, irs] of packs) {
      for (const ir of irs) {
        const rule = rulesOf(ir).find((each) => each.id === id);
        if (rule) return { rule, pack_id: ir.pack_id, may: scope !== "corp" && maySwitchOff(ir) };
      }
    }
    return undefined;
  }

  /** Records a change before it takes place; refuses an undo of an overlay that has changed since. */
  #recorder(by: AnsweredBy, undoes?: DetectionChange): OverlayRecorder {
    return async (was, is) => {
      const [before, after] = [was, is].map((overlay) =>
        overlay && { definition: overlay.definition, enabled: overlay.enabled }
      );
      const detection_id = (is ?? was)!.id;
      if (undoes && !isSame(before, undoes.after)) throw changedSince(undoes);
      if (isSame(before, after)) return;
      const change = { kind: "detection" as const, detection_id, by };
      await this.#record.add([{
        ...change,
        ...(before && { before }),
        ...(after && { after }),
        ...(undoes && { undoes: undoes.change_id }),
      }]);
    };
  }

  /** Activates the current user packs in every VM. */
  async reload(): Promise<Propagation> {
    return await this.#propagate();
  }

  /** Matches of every active rule, including rules without any, and the VMs with the current overlays. */
  async stats(): Promise<DetectionStats> {
    const survey = await this.#survey();
    const { contracts, counters, failed } = survey;
    const views = await this.#views(survey);
    const scopes = scopesOf(survey, views);
    const counted = mergeCounters(counters);
    const matched = new Set(counted.map(({ pack_id, rule_id }) => keyOf(pack_id, rule_id)));
    const unmatched = views.filter(({ pack_id, id, enabled }) => enabled && !matched.has(keyOf(pack_id, id)));
    const stampOf = ({ runtime, off = [] }: Contract["detection"]) => JSON.stringify([runtime, off]);
    const current = stampOf(await this.#sources.detections.irs());
    const isCurrent = ({ detection }: Contract) => stampOf(detection) === current;
    return {
      kind: "detection",
      rules: [
        ...counted.flatMap(({ rule_id: id, pack_id, ...rest }) => {
          const scope = scopes.get(keyOf(pack_id, id));
          return scope === undefined ? [] : [{ id, pack_id, scope, ...rest }];
        }),
        ...unmatched.map(({ id, pack_id, scope }) => ({
          id,
          pack_id,
          scope,
          match_count: 0,
          last_matched_event: null,
          last_matched_unix_ms: null,
        })),
      ],
      sync: {
        target_count: contracts.length + failed.length,
        synced_count: contracts.filter(isCurrent).length,
        failed_session_ids: failed,
        last_sync_unix_ms: this.#lastSync,
      },
    };
  }

  async #survey(): Promise<Survey> {
    const replies = await Promise.all(
      this.#sources.registry.alive().map(async (vm) => {
        try {
          const { counters } = await vm.process.call({ t: "Counters" });
          return { contract: await readContract(vm.paths), counters };
        } catch {
          return { failed: vm.record.id };
        }
      }),
    );
    const alive = new Set(this.#sources.registry.alive().map(({ record }) => record.id));
    return {
      contracts: replies.flatMap(({ contract }) => contract ?? []),
      counters: [...replies.flatMap(({ counters }) => counters ?? []), ...await this.#past.counters(alive)],
      failed: replies.flatMap(({ failed }) => failed ?? []),
    };
  }

  async #views({ contracts, counters }: Survey): Promise<DetectionView[]> {
    const { detections } = this.#sources;
    const [packs, overlays, off] = await Promise.all([
      this.#packs(contracts),
      detections.overlays(),
      detections.off.list().catch(() => []),
    ]);
    const offById: OffById = new Map(off.map((rule) => [rule.id, rule]));
    return [
      ...packs.flatMap(([scope, irs]) => irs.flatMap((ir) => packViews(scope, ir, counters, offById))),
      ...overlays.list().map((overlay) => overlayView(overlay, counters, offById)),
    ];
  }

  /** Packs in the order in which they count, without overlays. */
  async #packs(
    contracts: readonly Contract[],
  ): Promise<(readonly [scope: "corp" | "profile" | "user", irs: Compiled[]])[]> {
    const { detections, corp } = this.#sources;
    const [{ user }, { packs: corpPacks }] = await Promise.all([detections.irs(), corpLayer(corp)]);
    // Of a pack that runs in a VM, the version that runs there.
    const inForce = contracts.flatMap(({ profile }) => profile.packs);
    const profilePacks = new Map(
      [...await this.#profilePacks(), ...inForce].map((ir) => [ir.pack_id, ir]),
    );
    return [["corp", corpPacks], ["profile", [...profilePacks.values()]], ["user", user]];
  }

  /** Packs of every profile that can be read; `sbx status` reports the others. */
  async #profilePacks(): Promise<Compiled[]> {
    const packs = await Promise.all(
      (await listProfiles(this.#sources.home)).map((each) =>
        "error" in each
          ? []
          : profileLayer(each.profile, this.#sources.corp).then(({ packs }) => packs, () => [])
      ),
    );
    return packs.flat();
  }

  /** Activates the current overlays in every VM. */
  async #propagate(): Promise<Propagation> {
    const { refreshed, failed } = await this.#sources.refresh.refreshDetections();
    this.#lastSync = Date.now();
    return {
      target_count: refreshed.length + failed.length,
      failed_session_count: failed.length,
      failed_session_ids: failed,
    };
  }
}

/** Scopes of the active rules, including removed overlays that are still active in a VM. */
function scopesOf(
  { contracts }: Survey,
  views: readonly DetectionView[],
): Map<string, DetectionView["scope"]> {
  const running = contracts.flatMap(({ detection }) => detection.runtime)
    .flatMap((pack) => rulesOf(pack).map(({ id }) => keyOf(pack.pack_id, id)));
  return new Map<string, DetectionView["scope"]>([
    ...running.map((key) => [key, "runtime"] as const),
    ...views.map(({ id, pack_id, scope }) => [keyOf(pack_id, id), scope] as const),
  ]);
}

function changedSince({ detection_id, change_id }: DetectionChange): SbxError {
  return new SbxError(
    "policy.change.conflict",
    `the detection "${detection_id}" has changed since ${change_id}`,
    {
      hint: "undo its later change first: sbx policy changes",
    },
  );
}

function keyOf(pack_id: string, rule_id: string): string {
  return `${pack_id} ${rule_id}`;
}

/** Counts that were read, kept while the ledger's file stays as it is. */
class PastMatches {
  readonly #dir: string;
  readonly #known = new Map<string, { stamp: string; counters: RuleCounter[] }>();

  constructor({ dir }: Pick<Home, "dir">) {
    this.#dir = join(dir, "ledgers");
  }

  /** Counters of every session but these. */
  async counters(except: ReadonlySet<string>): Promise<RuleCounter[]> {
    const names = await Array.fromAsync(Deno.readDir(this.#dir), ({ name }) => name).catch(
      (): string[] => [],
    );
    const present = new Set(names);
    for (const name of this.#known.keys()) if (!present.has(name)) this.#known.delete(name);
    const all: RuleCounter[] = [];
    for (const name of names) if (!except.has(name)) all.push(...await this.#countersOf(name));
    return all;
  }

  async #countersOf(session: string): Promise<RuleCounter[]> {
    const path = join(this.#dir, session, "session.db");
    const file = await Deno.stat(path).catch(() => undefined);
    if (!file) return [];
    const stamp = `${file.mtime?.getTime()} ${file.size}`;
    const known = this.#known.get(session);
    if (known?.stamp === stamp) return known.counters;
    const counters = await countFindings(path).catch((error) => {
      log.warn(`counting the findings of session ${session}:`, (error as Error).message);
      return [];
    });
    this.#known.set(session, { stamp, counters });
    return counters;
  }
}
