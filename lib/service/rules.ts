import { SbxError } from "../base/error/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import type { CorpStore } from "../corp/mod.ts";
import type { Lint, RuleDraft, RuleTable } from "../policy/author/mod.ts";
import type { Policy, Rule } from "../policy/mod.ts";
import { loadProfile, parseProfile, type Profile } from "../profile/mod.ts";
import { withFileLock } from "../settings/mod.ts";
import type { TomlDocument } from "../toml/mod.ts";
import { corpLayer, profileLayer } from "./contract.ts";

/** Reads and edits the rules of profiles. The policy engine is loaded when it is needed. */
export class Rules {
  constructor(readonly home: Home, readonly corp: CorpStore) {}

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
      import("../policy/mod.ts"),
      import("../policy/author/mod.ts"),
    ]);
    const { corp, profile } = await this.#layers(await loadProfile(this.home, profileId));
    return compileLayers({ corp, profile: { rules: withDraft(profile.rules, draft) } });
  }

  /** Number of built-in rules, which every profile has. */
  async countDefaults(): Promise<number> {
    const { DEFAULT_RULES } = await import("../policy/mod.ts");
    return DEFAULT_RULES.length;
  }

  async lint(policy: Policy): Promise<Lint[]> {
    const { lintPolicy } = await import("../policy/author/mod.ts");
    return lintPolicy(policy);
  }

  /** Writes a rule into profile.toml. @throws {SbxError} `policy.invalid`; nothing is written then */
  async put(profileId: string, ruleId: string, rule: RuleTable): Promise<void> {
    const { withRule } = await import("../policy/author/mod.ts");
    await this.#edit(profileId, (document) => withRule(document, ruleId, rule));
  }

  /** Removes a rule from profile.toml. @throws {SbxError} `policy.rule.not_found` */
  async delete(profileId: string, ruleId: string): Promise<void> {
    const { withoutRule } = await import("../policy/author/mod.ts");
    await this.#edit(profileId, (document) => withoutRule(document, ruleId));
  }

  async #edit(
    profileId: string,
    change: (document: TomlDocument) => TomlDocument | Promise<TomlDocument>,
  ): Promise<void> {
    const { path } = await loadProfile(this.home, profileId);
    if (!path) {
      throw new SbxError("profile.conflict", `"${profileId}" is built in, so its rules cannot be changed`, {
        hint: `sbx profile copy ${profileId} mine makes an editable copy`,
      });
    }
    await withFileLock(`${path}.lock`, async () => {
      const { document } = await loadProfile(this.home, profileId);
      const changed = await change(document);
      await this.#compile(parseProfile(changed, { id: profileId, source: "user", path }));
      await writeAtomic(path, changed.text);
    });
  }

  async #compile(profile: Profile): Promise<Policy> {
    const { compileLayers } = await import("../policy/mod.ts");
    return compileLayers(await this.#layers(profile));
  }

  async #layers(source: Profile) {
    const [profile, corp] = await Promise.all([profileLayer(source), corpLayer(this.corp)]);
    return { profile, corp };
  }
}
