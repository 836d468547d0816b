/**
 * A person's rules for a built-in profile: added, listed, removed; never wider than
 * corp, and never another user's.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { type CorpInfo, corpInfo, CorpStore } from "../../../lib/config/corp/mod.ts";
import { loadProfile } from "../../../lib/config/profile/mod.ts";
import { Rules } from "../../../lib/service/contract/rules.ts";
import { decided, http } from "../../helper/policy.ts";
import { rule } from "../../helper/session_gate.ts";

const ANN = { user: "ann", client: "sbx/1" };
const DOCS = http({ host: "docs.example", method: "GET", path: "/" });
const ALLOW = { action: "allow", match: 'http.request.host == "docs.example"', enabled: true } as const;

interface Place {
  rules: Rules;
  /** overlay of claude */
  path: string;
  decide(): Promise<string>;
  /** replaces corp.toml */
  setCorp(text: string): Promise<CorpInfo>;
}

async function withRules(run: (place: Place) => Promise<void>, corpRule = ""): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const corp = join(dir, "corp.toml");
    await Deno.writeTextFile(corp, corpRule);
    const store = new CorpStore(home, { managed: corp });
    await store.load();
    const rules = new Rules(home, store);
    const decide = async () => decided(await rules.policyOf("claude"), DOCS)[0];
    const setCorp = async (text: string) => {
      await Deno.writeTextFile(corp, text);
      await store.load();
      return corpInfo(store);
    };
    await run({ rules, path: join(dir, "rules", "claude.toml"), decide, setCorp });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a rule that is added to a built-in profile holds, is on record, and is taken back", () =>
  withRules(async ({ rules, path, decide }) => {
    assertEquals(await decide(), "ask");
    await rules.create("claude", "docs", ALLOW, ANN);
    assertEquals(await decide(), "allow");
    assertStringIncludes(await Deno.readTextFile(path), "docs.example");
    assertEquals((await Deno.stat(path)).mode! & 0o077, 0);
    const [change] = await rules.changes("claude");
    if (change.kind !== "rule") throw new Error("no change of a rule");
    assertEquals([change.what, change.rule_id, change.by], ["create", "docs", ANN]);
    // The profile itself is sbx's: a new version of it does not meet the rule as one of its own.
    assertEquals(Object.keys((await loadProfile(rules.home, "claude")).rules).includes("docs"), false);
    await rules.undo(change, ANN);
    assertEquals(await decide(), "ask");
    await rules.create("claude", "docs", ALLOW, ANN);
    await Deno.remove(path);
    assertEquals(await decide(), "ask");
    await rules.create("claude", "docs", ALLOW, ANN);
    assertEquals((await rules.changes("claude")).map(({ what }) => what), [
      "create",
      "delete",
      "create",
      "delete",
      "create",
    ]);
  }));

Deno.test("corp's rules hold over it", () =>
  withRules(async ({ rules, decide }) => {
    await rules.create("claude", "docs", ALLOW, ANN);
    assertEquals(await decide(), "block");
  }, rule("corp", "no-docs", "block", ALLOW.match)));

Deno.test("corp forbids them: what is there has no effect, nothing is added, and a rule is still taken back", () =>
  withRules(async ({ rules, decide, setCorp }) => {
    await rules.create("claude", "docs", ALLOW, ANN);
    const [change] = await rules.changes("claude");
    assertEquals((await setCorp("[corp.limits]\noverlays = false\n")).overlays, false);
    assertEquals(await decide(), "ask");
    const more = { ...ALLOW, match: 'http.request.host == "more.example"' };
    for (
      const add of [
        () => rules.create("claude", "more", more, ANN),
        () => rules.put("claude", "docs", more, ANN),
      ]
    ) {
      const error = await assertRejects(add, SbxError);
      assertEquals(error.code, "policy.blocked");
      assertStringIncludes(`${error.message} ${error.hint}`, "sbx corp info");
    }
    if (change.kind !== "rule") throw new Error("no change of a rule");
    await rules.undo(change, ANN);
    // A corp.toml that cannot be read allows nothing either; the last good one holds.
    assertEquals((await setCorp("[corp.limits]\noverlays = maybe\n")).overlays, false);
    assertEquals((await setCorp("")).overlays, true);
  }));

Deno.test("rules of the built-in profile are neither replaced nor removed", () =>
  withRules(async ({ rules, path }) => {
    const codeOf = async (work: () => Promise<unknown>) => (await assertRejects(work, SbxError)).code;
    assertEquals(await codeOf(() => rules.create("claude", "telemetry", ALLOW, ANN)), "policy.rule.conflict");
    assertEquals(await codeOf(() => rules.put("claude", "telemetry", ALLOW, ANN)), "policy.rule.not_found");
    assertEquals(await codeOf(() => rules.delete("claude", "telemetry", ANN)), "policy.rule.not_found");
    await Deno.mkdir(join(path, ".."), { recursive: true });
    await Deno.writeTextFile(path, rule("profiles", "telemetry", "allow", ALLOW.match), { mode: 0o600 });
    const error = await assertRejects(() => rules.policyOf("claude"), SbxError);
    assertStringIncludes(error.message, 'has a rule "telemetry" of its own');
  }));

Deno.test("a file that others may write, of another user, or with other keys, is refused: nothing of it holds", () =>
  withRules(async ({ rules, path }) => {
    await rules.create("claude", "docs", ALLOW, ANN);
    const problem = async () => (await assertRejects(() => rules.policyOf("claude"), SbxError)).message;
    await Deno.chmod(path, 0o620);
    assertStringIncludes(await problem(), "can be changed by other users");
    await Deno.chmod(path, 0o600);
    if (Deno.uid() === 0) {
      await Deno.chown(path, 65534, null);
      assertStringIncludes(await problem(), "belongs to another user");
      await Deno.chown(path, 0, null);
    }
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, `${text}\n[mcp.evil]\ncommand = ["sh"]\n`);
    assertStringIncludes(await problem(), "mcp");
    await Deno.writeTextFile(path, text);
    await Deno.rename(path, `${path}.real`);
    await Deno.symlink(`${path}.real`, path);
    assertStringIncludes(await problem(), "is not a file");
  }));
