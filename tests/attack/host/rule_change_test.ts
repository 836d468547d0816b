/**
 * A rule is replaced by nobody's accident: taken ids are refused, and every change
 * is on record and can be undone.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import type { RuleChange } from "../../../lib/policy/author/schema.ts";
import { findChange, ruleDigest, Rules } from "../../../lib/service/contract/rules.ts";
import { rule } from "../../helper/session_gate.ts";

const HEAD = 'id = "mine"\nname = "Mine"\ndescription = ""\nrevision = "1.0.0"\n';
const MATCH = 'http.request.host == "a.example"';
const BLOCK = { action: "block", match: MATCH, enabled: true } as const;
const ALLOW = { action: "allow", match: MATCH, enabled: true } as const;
const ANN = { user: "ann", client: "sbx/1" };

interface Place {
  rules: Rules;
  /** profile.toml */
  path: string;
  record: string;
  undo(changeId: string): Promise<unknown>;
}

async function withRules(run: (place: Place) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const path = join(home.profilesDir, "mine", "profile.toml");
    await Deno.mkdir(join(home.profilesDir, "mine"), { recursive: true });
    await Deno.writeTextFile(path, HEAD + rule("profiles", "no", "block", MATCH));
    const corp = join(dir, "corp.toml");
    await Deno.writeTextFile(corp, rule("corp", "of-corp", "block", MATCH));
    const store = new CorpStore(home, { managed: corp });
    await store.load();
    const rules = new Rules(home, store);
    const undo = async (changeId: string) => {
      const change = await findChange(rules.record, changeId);
      if (change.kind === "rule") await rules.undo(change, ANN);
    };
    await run({ rules, path, record: join(dir, "record", "rules.jsonl"), undo });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const codeOf = async (work: () => Promise<unknown>) => (await assertRejects(work, SbxError)).code;
const ruleChanges = async (rules: Rules) =>
  (await rules.changes("mine")).flatMap((change) => change.kind === "rule" ? change : []);
const summaryOf = async (rules: Rules) =>
  (await ruleChanges(rules)).map(({ rule_id, what, before, after, by }) =>
    [rule_id, what, before?.action, after?.action, by.client] as const
  );

Deno.test("a new rule with the id of another replaces none, whoever owns that", () =>
  withRules(async ({ rules, path }) => {
    const before = await Deno.readTextFile(path);
    for (const id of ["no", "of-corp", "allow-http"]) {
      const error = await assertRejects(() => rules.create("mine", id, ALLOW, ANN), SbxError);
      assertEquals(error.code, "policy.rule.conflict", id);
      assertStringIncludes(error.message, `has a rule "${id}" already`);
    }
    assertEquals(await codeOf(() => rules.put("mine", "fresh", ALLOW, ANN)), "policy.rule.not_found");
    assertEquals(await Deno.readTextFile(path), before);
    assertEquals((await summaryOf(rules)).filter(([, , , , client]) => client === ANN.client), []);
  }));

Deno.test("of two creations at once one is refused", () =>
  withRules(async ({ rules, path }) => {
    const results = await Promise.allSettled(
      [BLOCK, ALLOW].map((each) => rules.create("mine", "fresh", each, ANN)),
    );
    assertEquals(results.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
    const first = [BLOCK, ALLOW][results.findIndex(({ status }) => status === "fulfilled")];
    assertEquals((await rules.all("mine")).find(({ id }) => id === "fresh")?.action, first.action);
    assertEquals((await Deno.readTextFile(path)).match(/rules\.fresh/g)?.length, 1);
  }));

Deno.test("an edit of a rule that changed since it was read is refused, and so is its deletion", () =>
  withRules(async ({ rules, path }) => {
    const digestOf = async () => ruleDigest((await rules.all("mine")).find(({ id }) => id === "no")!);
    const read = await digestOf();
    await rules.put("mine", "no", ALLOW, ANN, read);
    const newer = await Deno.readTextFile(path);
    const off = { ...BLOCK, enabled: false };
    assertEquals(await codeOf(() => rules.put("mine", "no", off, ANN, read)), "policy.change.conflict");
    assertEquals(await codeOf(() => rules.delete("mine", "no", ANN, read)), "policy.change.conflict");
    assertEquals(await Deno.readTextFile(path), newer);
    // Comments move a rule, and change nothing of it.
    await Deno.writeTextFile(path, `# first\n${newer}`);
    await rules.delete("mine", "no", ANN, await digestOf());
    assertEquals((await rules.all("mine")).some(({ id }) => id === "no"), false);
  }));

Deno.test("every change is on record with before, after and who made it, and can be undone", () =>
  withRules(async ({ rules, path, undo }) => {
    await rules.put("mine", "no", ALLOW, ANN);
    await rules.put("mine", "no", { ...ALLOW, enabled: false }, ANN);
    await rules.put("mine", "no", { ...ALLOW, enabled: false }, ANN);
    await rules.put("mine", "no", ALLOW, ANN);
    await rules.create("mine", "fresh", BLOCK, ANN);
    await rules.delete("mine", "fresh", ANN);
    assertEquals(await summaryOf(rules), [
      ["fresh", "delete", "block", undefined, "sbx/1"],
      ["fresh", "create", undefined, "block", "sbx/1"],
      ["no", "enable", "allow", "allow", "sbx/1"],
      ["no", "disable", "allow", "allow", "sbx/1"],
      ["no", "edit", "block", "allow", "sbx/1"],
      ["no", "create", undefined, "block", "profile.toml"],
    ]);
    const [deleted, created, enabled, disabled, edited] = await ruleChanges(rules);
    await undo(deleted.change_id);
    assertEquals((await rules.all("mine")).find(({ id }) => id === "fresh")?.action, "block");
    await undo(created.change_id);
    // A change under a later one is not undone: that would take back the later one too.
    assertEquals(await codeOf(() => undo(disabled.change_id)), "policy.change.conflict");
    assertEquals(await codeOf(() => undo("c0")), "policy.change.not_found");
    for (const { change_id } of [enabled, disabled, edited]) await undo(change_id);
    const [last] = await ruleChanges(rules);
    assertEquals([last.what, last.undoes, last.after?.action], ["edit", edited.change_id, "block"]);
    assertStringIncludes(await Deno.readTextFile(path), 'action = "block"');
    // An undo is a change, which can be undone.
    await undo(last.change_id);
    assertStringIncludes(await Deno.readTextFile(path), 'action = "allow"');
  }));

Deno.test("an edit of the file is on record too, and can be undone", () =>
  withRules(async ({ rules, path, undo }) => {
    await rules.changes();
    await Deno.writeTextFile(path, HEAD + rule("profiles", "no", "allow", MATCH));
    const [edited] = await ruleChanges(rules);
    assertEquals([edited.what, edited.before?.action, edited.by.client], ["edit", "block", "profile.toml"]);
    await undo(edited.change_id);
    assertStringIncludes(await Deno.readTextFile(path), 'action = "block"');
  }));

Deno.test("a rule that does not compile leaves no change on record; one cut off by a crash did not take place", () =>
  withRules(async ({ rules, record }) => {
    const wrong = { ...BLOCK, match: "http.request.hots == 1" };
    assertEquals(await codeOf(() => rules.put("mine", "no", wrong, ANN)), "policy.invalid");
    await rules.put("mine", "no", ALLOW, ANN);
    const text = await Deno.readTextFile(record);
    await Deno.writeTextFile(record, `${text}{"change_id":"c1","at":`);
    await rules.put("mine", "no", BLOCK, ANN);
    assertEquals((await summaryOf(rules)).map(([, what, , after]) => `${what} ${after}`), [
      "edit block",
      "edit allow",
      "create block",
    ]);
  }));

Deno.test("a line of the record that is no object is no change", () =>
  withRules(async ({ rules, record }) => {
    await rules.put("mine", "no", ALLOW, ANN);
    const before = await summaryOf(rules);
    const text = await Deno.readTextFile(record);
    for (const line of ["null", "5", '"text"', "[1]"]) {
      await Deno.writeTextFile(record, `${line}\n${text}${line}\n`);
      assertEquals(await summaryOf(rules), before, line);
    }
  }));

Deno.test("a record in which a change is missing or altered is not believed", () =>
  withRules(async ({ rules, record }) => {
    await rules.put("mine", "no", ALLOW, ANN);
    await rules.put("mine", "no", BLOCK, ANN);
    const text = await Deno.readTextFile(record);
    const lines = text.split("\n").filter((line) => line !== "");
    for (const forged of [[lines[0], lines[2]].join("\n"), text.replace('"ann"', '"bob"')]) {
      await Deno.writeTextFile(record, `${forged}\n`);
      assertEquals(await codeOf(() => rules.changes()), "policy.record.unreadable");
      assertEquals(await codeOf(() => rules.put("mine", "no", ALLOW, ANN)), "policy.record.unreadable");
    }
  }));

Deno.test("a rule that is deleted does not come back in the place of one that has its id since", () =>
  withRules(async ({ rules, path }) => {
    const { home } = rules;
    const deleted = await rules.delete("mine", "no", ANN);
    const before = await Deno.readTextFile(path);
    const corp = join(home.dir, "corp.toml");
    await Deno.writeTextFile(corp, rule("corp", "no", "block", MATCH));
    const store = new CorpStore(home, { managed: corp });
    await store.load();
    const later = new Rules(home, store);
    const change = await findChange(later.record, deleted!.change_id);
    const undo = () => later.undo(change as RuleChange, ANN);
    assertEquals([await codeOf(undo), await Deno.readTextFile(path)], ["policy.rule.conflict", before]);
  }));

Deno.test("a rule that has the name of an object's own method is a rule like another", () =>
  withRules(async ({ rules, path, undo }) => {
    const id = "constructor";
    const before = await Deno.readTextFile(path);
    assertEquals(await codeOf(() => rules.put("mine", id, ALLOW, ANN)), "policy.rule.not_found");
    assertEquals(await codeOf(() => rules.delete("mine", id, ANN)), "policy.rule.not_found");
    assertEquals(await Deno.readTextFile(path), before);
    const made = await rules.create("mine", id, ALLOW, ANN);
    assertEquals([made?.what, made?.before], ["create", undefined]);
    await undo(made!.change_id);
    assertEquals((await rules.all("mine")).some((each) => each.id === id), false);
    assertEquals((await summaryOf(rules)).filter(([rule]) => rule === id).map(([, what]) => what), [
      "delete",
      "create",
    ]);
  }));
