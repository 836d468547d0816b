import { SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { userName } from "../../base/user/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import type { Lint, RuleDraft, RuleTable } from "../../policy/author/mod.ts";
import type { RecordedChange, RuleChange } from "../../policy/author/schema.ts";
import type { AnsweredBy, Policy, Rule } from "../../policy/mod.ts";
import { listProfiles, loadProfile, parseProfile, type Profile } from "../../config/profile/mod.ts";
import { withFileLock } from "../../config/settings/mod.ts";
import { corpLayer, profileLayer } from "../../home/mod.ts";
import { isSame, type NewChange, RuleRecord, rulesAfter } from "./rule_record.ts";

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

  /** Every rule of corp's and the profile's files, disabled ones too. @throws {SbxError} `profile.not_found`, `policy.invalid` */
  async all(profileId: string): Promise<Rule[]> {
    const { corp, profile } = await this.#layers(await loadProfile(this.home, profileId));
    return [...corp.rules, ...profile.rules];
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

  async lint(policy: Policy): Promise<Lint[]> {
    const { lintPolicy } = await import("../../policy/author/mod.ts");
    return lintPolicy(policy);
  }

  /** Writes a new rule into profile.toml. @throws {SbxError} `policy.rule.conflict`, `policy.invalid`; nothing is written then */
  async create(
    profileId: string,
    ruleId: string,
    after: RuleTable,
    by: AnsweredBy,
  ): Promise<RecordedChange | undefined> {
    const check = (_: RuleTable | undefined, profile: Profile) => this.#requireFree(ruleId, profile);
    return await this.#edit({ profileId, ruleId, by, after, check });
  }

  /** Replaces a rule in profile.toml. @throws {SbxError} `policy.rule.not_found`, `policy.invalid`; nothing is written then */
  async put(
    profileId: string,
    ruleId: string,
    after: RuleTable,
    by: AnsweredBy,
  ): Promise<RecordedChange | undefined> {
    return await this.#edit({ profileId, ruleId, by, after, check: requireRule(profileId, ruleId) });
  }

  /** Removes a rule from profile.toml. @throws {SbxError} `policy.rule.not_found` */
  async delete(profileId: string, ruleId: string, by: AnsweredBy): Promise<RecordedChange | undefined> {
    return await this.#edit({ profileId, ruleId, by, check: requireRule(profileId, ruleId) });
  }

  /** Recorded changes of everything or of one profile, newest first. @throws {SbxError} `policy.record.unreadable` */
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
   * @throws {SbxError} `policy.change.conflict`: the rule has changed since; `policy.rule.conflict`: another has its id;
   * `policy.invalid`
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
  async noticeFile({ id, path }: Pick<Profile, "id" | "path">): Promise<void> {
    if (path === undefined) return;
    try {
      await withFileLock(`${path}.lock`, async () => this.#notice(await loadProfile(this.home, id)));
    } catch (error) {
      log.warn(`changes of the rules of profile "${id}" are not recorded:`, error);
    }
  }

  /** Records the change before it is made, and any edit of the file before that. */
  async #edit({ profileId, ruleId, by, after, undoes, check }: Edit): Promise<RecordedChange | undefined> {
    const { path } = await loadProfile(this.home, profileId);
    if (!path) {
      throw new SbxError("profile.conflict", `"${profileId}" is built in, so its rules cannot be changed`, {
        hint: `sbx profile copy ${profileId} mine makes an editable copy`,
      });
    }
    const { withoutRule, withRule } = await import("../../policy/author/mod.ts");
    return await withFileLock(`${path}.lock`, async () => {
      const profile = await loadProfile(this.home, profileId);
      const before = ruleOf(profile.rules, ruleId);
      await check(before, profile);
      const { document } = profile;
      const edited = after ? await withRule(document, ruleId, after) : withoutRule(document, ruleId);
      const changed = parseProfile(edited, { id: profileId, source: "user", path });
      await this.#compile(changed);
      await this.#notice(profile);
      const change: NewChange = {
        kind: "rule",
        profile_id: profileId,
        rule_id: ruleId,
        ...(before && { before }),
        ...(after && { after: changed.rules[ruleId] }),
        by,
        ...(undoes !== undefined && { undoes }),
      };
      if (isSame(change.before, change.after)) return undefined;
      const [recorded] = await this.record.add([change]);
      await writeAtomic(path, edited.text);
      return recorded;
    });
  }

  async #notice({ id, rules }: Profile): Promise<void> {
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
    const [profile, corp] = await Promise.all([profileLayer(source), corpLayer(this.corp)]);
    return { profile, corp };
  }
}

/** The rule of an id, which may be `constructor`: that of no object's prototype. */
function ruleOf(rules: Profile["rules"], id: string): RuleTable | undefined {
  return Object.hasOwn(rules, id) ? rules[id] : undefined;
}

/** Refuses the edit of a rule that is not in profile.toml. */
function requireRule(profileId: string, ruleId: string) {
  return (before: RuleTable | undefined) => {
    if (before) return;
    throw new SbxError(
      "policy.rule.not_found",
      `the file of profile "${profileId}" has no rule "${ruleId}"`,
      {
        hint: "only rules in profile.toml can be edited; a new one is created with another request",
      },
    );
  };
}
