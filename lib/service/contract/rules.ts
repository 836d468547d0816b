/**
 * Rules of profiles: read, edited, tried before they are saved, and recorded with every change
 * (docs/design/contracts/05-policy.md §5, "Changes of rules").
 */
import { SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { userName } from "../../base/user/mod.ts";
import { type CorpStore, requireOverlays } from "../../config/corp/mod.ts";
import type { Lint, RuleDraft, RuleTable } from "../../policy/author/mod.ts";
import type { DetectionChange, RecordedChange, RuleChange } from "../../policy/author/schema.ts";
import type { AnsweredBy, AskReach, Policy, Rule } from "../../policy/mod.ts";
import {
  emptyOverlay,
  listProfiles,
  loadProfile,
  overlayPath,
  parseOverlay,
  parseProfile,
  type Profile,
} from "../../config/profile/mod.ts";
import { withFileLock } from "../../config/settings/mod.ts";
import { corpLayer, profileLayer } from "../../home/mod.ts";
import { dirname, join } from "node:path";
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { AskInbox } from "./asks.ts";
import { explainEvent, type LedgerFinder } from "../record/ledger.ts";

/** Client of a change that was made in the file, by an editor or another program. */
const FILE_CLIENT = "profile.toml";

/** One edit of one rule. */
interface Edit {
  profileId: string;
  ruleId: string;
  by: AnsweredBy;
  /** absent: the rule is deleted */
  after?: RuleTable;
  undoes?: string;
  /** refuses the edit of this rule */
  check(before: RuleTable | undefined, profile: Profile): Promise<void> | void;
}

/** Reads and edits the rules of profiles. The policy engine is loaded when it is needed. */
export class Rules {
  readonly record: RuleRecord;

  constructor(readonly home: Home, readonly corp: CorpStore) {
    this.record = new RuleRecord(home);
  }

  /**
   * Every rule of corp's and the profile's files, disabled ones too.
   * @throws {SbxError} `profile.not_found`, `policy.invalid`
   */
  async all(profileId: string): Promise<Rule[]> {
    const { corp, profile } = await this.#layers(await loadProfile(this.home, profileId));
    return [...corp.rules, ...profile.rules];
  }

  /** Ids of the rules that a person may change. @throws {SbxError} `profile.not_found` */
  async editable(profileId: string): Promise<string[]> {
    return Object.keys(editable(await loadProfile(this.home, profileId)));
  }

  /** Policy of a VM that would boot now. */
  async policyOf(profileId: string): Promise<Policy> {
    return await this.#compile(await loadProfile(this.home, profileId));
  }

  /** Policy of a VM that would boot with an unsaved rule. @throws {SbxError} `policy.invalid` */
  async policyWith(profileId: string, draft: RuleDraft): Promise<Policy> {
    const [{ compileLayers }, { withDraft }] = await Promise.all([
      import("../../policy/mod.ts"),
      import("../../policy/author/mod.ts"),
    ]);
    const { corp, profile } = await this.#layers(await loadProfile(this.home, profileId));
    return compileLayers({ corp, profile: { rules: withDraft(profile.rules, draft) } });
  }

  /** Number of built-in rules, which every profile has. */
  async countDefaults(): Promise<number> {
    const { DEFAULT_RULES } = await import("../../policy/mod.ts");
    return DEFAULT_RULES.length;
  }

  async lint(policy: Policy, options?: { notes: boolean }): Promise<Lint[]> {
    const { lintPolicy } = await import("../../policy/author/mod.ts");
    return lintPolicy(policy, options);
  }

  /**
   * Writes a new rule into profile.toml.
   * @throws {SbxError} `policy.rule.conflict`, `policy.invalid`; nothing is written then
   */
  async create(
    profileId: string,
    ruleId: string,
    after: RuleTable,
    by: AnsweredBy,
  ): Promise<RecordedChange | undefined> {
    const check = (_: RuleTable | undefined, profile: Profile) => this.#requireFree(ruleId, profile);
    return await this.#edit({ profileId, ruleId, by, after, check });
  }

  /**
   * Replaces a rule in profile.toml.
   *
   * @param digest of the rule as it was read; absent: any rule is replaced
   * @throws {SbxError} `policy.rule.not_found`, `policy.invalid`; `policy.change.conflict`: it is another
   * rule by now. Nothing is written then
   */
  async put(
    profileId: string,
    ruleId: string,
    after: RuleTable,
    by: AnsweredBy,
    digest?: string,
  ): Promise<RecordedChange | undefined> {
    const check = this.#requireRead(profileId, ruleId, digest);
    return await this.#edit({ profileId, ruleId, by, after, check });
  }

  /**
   * Removes a rule from profile.toml.
   *
   * @param digest as for {@linkcode put}
   * @throws {SbxError} `policy.rule.not_found`, `policy.change.conflict`
   */
  async delete(
    profileId: string,
    ruleId: string,
    by: AnsweredBy,
    digest?: string,
  ): Promise<RecordedChange | undefined> {
    const check = this.#requireRead(profileId, ruleId, digest);
    return await this.#edit({ profileId, ruleId, by, check });
  }

  /**
   * Recorded changes of everything or of one profile, newest first.
   * @throws {SbxError} `policy.record.unreadable`
   */
  async changes(profileId?: string): Promise<RecordedChange[]> {
    await this.noticeFiles();
    const changes = await this.record.list();
    return changes.filter((change) =>
      profileId === undefined || change.kind === "rule" && change.profile_id === profileId
    ).reverse();
  }

  /**
   * Restores a rule to its state before a change.
   *
   * @throws {SbxError} `policy.change.conflict`: the rule has changed since; `policy.rule.conflict`:
   * another has its id; `policy.invalid`
   */
  async undo(change: RuleChange, by: AnsweredBy): Promise<RecordedChange | undefined> {
    const changeId = change.change_id;
    const { profile_id: profileId, rule_id: ruleId, before: after } = change;
    const check = async (now: RuleTable | undefined, profile: Profile) => {
      // Corp may have taken the id of a rule that was deleted.
      if (isSame(now, change.after)) return now ? undefined : await this.#requireFree(ruleId, profile);
      throw new SbxError("policy.change.conflict", `the rule "${ruleId}" has changed since ${changeId}`, {
        hint: `undo its later change first: sbx policy changes ${profileId}`,
      });
    };
    return await this.#edit({ profileId, ruleId, by, after, check, undoes: changeId });
  }

  /** Records edits of profile files since the last change, such as by an editor or sbx learn. */
  async noticeFiles(): Promise<void> {
    for (const each of await listProfiles(this.home)) {
      if ("profile" in each) await this.noticeFile(each.profile);
    }
  }

  /** Records edits of one profile's file. */
  async noticeFile({ id, path: own, overlay }: Pick<Profile, "id" | "path" | "overlay">): Promise<void> {
    const path = own ?? overlay?.path;
    if (path === undefined) return;
    try {
      await withFileLock(`${path}.lock`, async () => this.#notice(await loadProfile(this.home, id)));
    } catch (error) {
      log.warn(`changes of the rules of profile "${id}" are not recorded:`, error);
    }
  }

  /** Records the change before it is made, and any edit of the file before that. */
  async #edit({ profileId, ruleId, by, after, undoes, check }: Edit): Promise<RecordedChange | undefined> {
    const { path: own } = await loadProfile(this.home, profileId);
    // A rule may be taken back in any case.
    if (own === undefined && after) requireOverlays(this.corp.state, profileId);
    // The text of a built-in profile is sbx's: the person's rules for it are a file of their own.
    const path = own ?? overlayPath(this.home, profileId);
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const { withoutRule, withRule } = await import("../../policy/author/mod.ts");
    return await withFileLock(`${path}.lock`, async () => {
      const profile = await loadProfile(this.home, profileId);
      const before = ruleOf(editable(profile), ruleId);
      await check(before, profile);
      const { document } = own ? profile : profile.overlay ?? emptyOverlay(path);
      const edited = after ? await withRule(document, ruleId, after) : withoutRule(document, ruleId);
      const changed = own
        ? parseProfile(edited, { id: profileId, source: "user", path })
        : { ...profile, overlay: parseOverlay(edited, path) };
      await this.#compile(changed);
      await this.#notice(profile);
      const change: NewChange = {
        kind: "rule",
        profile_id: profileId,
        rule_id: ruleId,
        ...(before && { before }),
        ...(after && { after: editable(changed)[ruleId] }),
        by,
        ...(undoes !== undefined && { undoes }),
      };
      if (isSame(change.before, change.after)) return undefined;
      const [recorded] = await this.record.add([change]);
      await writeAtomic(path, edited.text);
      return recorded;
    });
  }

  async #notice(profile: Profile): Promise<void> {
    const { id } = profile;
    const rules = editable(profile);
    const known = rulesAfter(await this.record.list(), id);
    const by = { user: userName(), client: FILE_CLIENT };
    const ids = [...new Set([...known.keys(), ...Object.keys(rules)])];
    await this.record.add(
      ids.filter((rule_id) => !isSame(known.get(rule_id), ruleOf(rules, rule_id))).map(
        (rule_id): NewChange => {
          const [before, after] = [known.get(rule_id), ruleOf(rules, rule_id)];
          return {
            kind: "rule",
            profile_id: id,
            rule_id,
            ...(before && { before }),
            ...(after && { after }),
            by,
          };
        },
      ),
    );
  }

  /** Refuses the edit of a rule that is not in profile.toml, or not as it was read. */
  #requireRead(profileId: string, ruleId: string, digest: string | undefined): Edit["check"] {
    return async (before, profile) => {
      requireRule(profileId, ruleId, before, profile);
      if (digest === undefined) return;
      const now = (await this.#layers(profile)).profile.rules.find(({ id }) => id === ruleId);
      if (now && ruleDigest(now) === digest) return;
      throw new SbxError("policy.change.conflict", `the rule "${ruleId}" has changed since it was read`, {
        hint: `read it again: sbx policy changes ${profileId} lists who changed what`,
      });
    };
  }

  /** @throws {SbxError} `policy.rule.conflict` */
  async #requireFree(ruleId: string, profile: Profile): Promise<void> {
    const [{ corp, profile: own }, { DEFAULT_RULES }] = await Promise.all([
      this.#layers(profile),
      import("../../policy/mod.ts"),
    ]);
    const taken = [...own.rules, ...corp.rules, ...DEFAULT_RULES].find(({ id }) => id === ruleId);
    if (!taken) return;
    const owner = { profile: `profile "${profile.id}"`, corp: "corp", default: "sbx" }[taken.layer];
    throw new SbxError("policy.rule.conflict", `${owner} has a rule "${ruleId}" already`, {
      hint: taken.layer === "profile" ? "choose another id, or edit that rule" : "choose another id",
    });
  }

  async #compile(profile: Profile): Promise<Policy> {
    const { compileLayers } = await import("../../policy/mod.ts");
    return compileLayers(await this.#layers(profile));
  }

  async #layers(source: Profile) {
    const [profile, corp] = await Promise.all([profileLayer(source, this.corp), corpLayer(this.corp)]);
    return { profile, corp };
  }
}

/** The rules that a person may edit: the profile's own, or of a built-in one its overlay's. */
function editable({ source, rules, overlay }: Profile): Profile["rules"] {
  return source === "builtin" ? overlay?.rules ?? {} : rules;
}

/** The rule of an id, which may be `constructor`: that of no object's prototype. */
function ruleOf(rules: Profile["rules"], id: string): RuleTable | undefined {
  return Object.hasOwn(rules, id) ? rules[id] : undefined;
}

/** Refuses the edit of a rule that is not in profile.toml. */
function requireRule(
  profileId: string,
  ruleId: string,
  before: RuleTable | undefined,
  profile: Profile,
): void {
  if (before) return;
  if (profile.source === "builtin" && Object.hasOwn(profile.rules, ruleId)) {
    throw new SbxError(
      "policy.rule.not_found",
      `the rule "${ruleId}" is of the built-in profile "${profileId}", which is not changed`,
      { hint: `sbx profile copy ${profileId} mine makes a copy of your own` },
    );
  }
  throw new SbxError("policy.rule.not_found", `the file of profile "${profileId}" has no rule "${ruleId}"`, {
    hint: "only rules in profile.toml, or added to a built-in profile, can be edited; a new one is created",
  });
}

/** Digest of a rule without its place in a file: an edit names the rule that its author has read. */
export function ruleDigest({ file: _, line: __, match_line: ___, ...rule }: Rule): string {
  return blake3(canonicalJson(rule));
}

/** A change before it has an id and a time. */
type NewChange =
  | Omit<RuleChange, "change_id" | "at" | "what">
  | Omit<DetectionChange, "change_id" | "at" | "what">;

/** Changes of one home. Each line has the hash of the line before, so that a removed line shows. */
export class RuleRecord {
  readonly path: string;

  constructor({ dir }: Pick<Home, "dir">) {
    this.path = join(dir, "record", "rules.jsonl");
  }

  /** Changes, oldest first. @throws {SbxError} `policy.record.unreadable`: a line is damaged or missing */
  async list(): Promise<RecordedChange[]> {
    const { RecordedChange } = await import("../../policy/author/schema.ts");
    let previous = "";
    return (await this.#lines()).map((line, at) => {
      const { previous: named, ...change } = jsonOf(line);
      const { data } = RecordedChange.safeParse(change);
      if (named !== previous || !data) throw this.#unreadable(at + 1);
      previous = blake3(line);
      return data;
    });
  }

  /** Adds changes; they are on the disk before they take place. */
  async add(changes: readonly NewChange[]): Promise<RecordedChange[]> {
    if (changes.length === 0) return [];
    await Deno.mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
    return await withFileLock(`${this.path}.lock`, async () => {
      let previous = blake3Of((await this.#lines()).at(-1));
      const at = new Date().toISOString();
      const added = changes.map((change): RecordedChange => ({
        change_id: `c${crypto.randomUUID().replaceAll("-", "").slice(0, 12)}`,
        at,
        what: whatOf(change),
        ...change,
      }));
      const lines = added.map((change) => {
        const line = JSON.stringify({ ...change, previous });
        previous = blake3(line);
        return line;
      });
      using file = await Deno.open(this.path, { append: true, create: true, mode: 0o600 });
      // A line of its own also behind one that a crash cut off.
      const bytes = new TextEncoder().encode(`\n${lines.join("\n")}\n`);
      await writeAll(file, bytes);
      await file.sync();
      return added;
    });
  }

  /** Complete lines; a crash may have cut off a change, which then did not take place. */
  async #lines(): Promise<string[]> {
    try {
      const text = await Deno.readTextFile(this.path);
      return text.split("\n").filter((line) => Object.keys(jsonOf(line)).length > 0);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  #unreadable(line: number): SbxError {
    return new SbxError(
      "policy.record.unreadable",
      `${this.path}: change ${line} is damaged, or one before is gone`,
      {
        hint: "keep a copy of the file and remove it: a new record begins with the rules of now",
      },
    );
  }
}

/** Rules of each profile after its recorded changes. */
function rulesAfter(changes: readonly RecordedChange[], profileId: string): Map<string, RuleTable> {
  const rules = new Map<string, RuleTable>();
  for (const change of changes) {
    if (change.kind !== "rule" || change.profile_id !== profileId) continue;
    const { rule_id, after } = change;
    if (after) rules.set(rule_id, after);
    else rules.delete(rule_id);
  }
  return rules;
}

/** The change of an id. @throws {SbxError} `policy.change.not_found` */
export async function findChange(record: RuleRecord, changeId: string): Promise<RecordedChange> {
  const changes = await record.list();
  const change = changes.find(({ change_id }) => change_id === changeId);
  if (change) return change;
  throw new SbxError("policy.change.not_found", `no change ${changeId} is recorded`, {
    hint: didYouMean(changeId, changes.map(({ change_id }) => change_id)) ??
      "sbx policy changes lists them",
  });
}

/** Tests whether two rules or overlays are the same, or both are absent. */
export function isSame(a: object | undefined, b: object | undefined): boolean {
  return canonicalJson(a ?? null) === canonicalJson(b ?? null);
}

function whatOf(change: NewChange): RuleChange["what"] {
  const { before, after } = change;
  if (!before) return "create";
  if (!after) return "delete";
  if ("pack_id" in change) return after.enabled ? "enable" : "disable";
  const { enabled: was, ...rest } = before;
  const { enabled: is, ...others } = after;
  if (was === is || canonicalJson(rest) !== canonicalJson(others)) return "edit";
  return is ? "enable" : "disable";
}

function blake3Of(line: string | undefined): string {
  return line === undefined ? "" : blake3(line);
}

function jsonOf(line: string): Record<string, unknown> {
  try {
    return objectOf(JSON.parse(line));
  } catch {
    return {};
  }
}

/**
 * The rule by which events like that of a pending ask pass without a question.
 *
 * @param of its reach, where it is wider than events like this one
 * @param path of a rule for a path
 * @throws {SbxError} `ask.not_found`; `event.not_found`: it is not recorded yet;
 * `policy.blocked`, `ask.invalid`
 */
export async function ruleOfAsk(
  askId: string,
  { asks, rules, findLedger }: { asks: AskInbox; rules: Rules; findLedger: LedgerFinder },
  of?: AskReach,
  path?: string,
): Promise<RuleDraft & { profile_id: string; replaces: boolean; digest?: string }> {
  const { session_id, event_id } = await asks.get(askId);
  const { event, decision } = await explainEvent(await findLedger(session_id), event_id);
  const { profile_id } = event.common;
  const { source } = await loadProfile(rules.home, profile_id);
  if (source === "builtin") requireOverlays(rules.corp.state, profile_id);
  const policy = await rules.policyOf(profile_id);
  // A request that a program asks access for was not sent, and has no decision.
  const { id, layer } = (decision ?? policy.evaluate(withoutEnd(event)).decision).rule;
  const asking = policy.rules.find(({ rule }) => rule.id === id && rule.layer === layer);
  if (!asking) {
    throw new SbxError("policy.rule.not_found", `the rule "${id}" is no longer active`, {
      hint: "answer the ask; another rule makes the next one",
    });
  }
  const { savedRule } = await import("../../policy/author/mod.ts");
  const saved = savedRule(event, asking.rule, of, path);
  const replaces = saved.id === asking.rule.id;
  return {
    ...{ profile_id, rule_id: saved.id, rule: saved.rule, replaces },
    ...(replaces && { digest: ruleDigest(asking.rule) }),
  };
}

function withoutEnd(event: Event): Event {
  const { outcome: _, decision: __, rule_id: ___, ...rest } = event as Event & Record<string, unknown>;
  return rest as Event;
}
