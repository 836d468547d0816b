/** Detections in force, while no VM runs. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { Service } from "../../../lib/service/mod.ts";
import { loadPack } from "../../../lib/detection/active/mod.ts";
import { Matcher, withoutRules } from "../../../lib/detection/mod.ts";
import { corpLayer } from "../../../lib/home/mod.ts";
import { detectionsOf, sessionPaths } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { rule as ruleOf } from "../../helper/detection.ts";
import { requestEvent } from "../../helper/ledger.ts";

const PACK = `schema: sbx.detection-pack.v1
id: mine.pack
version: "1"
status: active
owner: user
field_mapping: { http: { Host: "http.request.host" } }
sources:
  - id: paste-site
    type: sigma
    format: yaml
    content: |
      title: Paste site
      logsource: { product: sbx, category: http }
      detection:
        selection: { Host: paste.example }
        condition: selection
      level: high
`;

Deno.test("a profile's detections are listed, with the matches of sessions that ended", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const profile = join(home.profilesDir, "p");
    await Deno.mkdir(profile, { recursive: true });
    await Deno.writeTextFile(
      join(profile, "profile.toml"),
      'id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n[rule_files]\nsigma = "pack.yaml"\n',
    );
    await Deno.writeTextFile(join(profile, "pack.yaml"), PACK);
    const corp = new CorpStore(home, { managed: join(dir, "corp.toml") });
    const settings = await SettingsStore.open({
      home,
      corp,
      definitions: await loadDefinitions({ get: () => undefined }),
    });
    const service = new Service({ home, settings, corp });
    const find = async () =>
      (await service.activeDetections.list()).rules.filter(({ pack_id }) => pack_id === "mine.pack");
    const stats = async () => {
      const { rules } = await service.activeDetections.stats();
      return rules.map(({ pack_id, match_count, last_matched_event, scope }) => [
        pack_id,
        match_count,
        last_matched_event,
        scope,
      ]);
    };
    assertEquals(await stats(), [["mine.pack", 0, null, "profile"]]);
    const [rule] = await find();
    assertEquals([rule.scope, rule.match_count, rule.last_matched_event], ["profile", 0, null]);

    const id = crypto.randomUUID();
    const { ledger: path } = sessionPaths(home, id);
    await Deno.mkdir(dirname(path), { recursive: true });
    const ledger = await Ledger.open(path, { sessionId: id });
    const events = [requestEvent("http.request"), requestEvent("http.request")];
    for (const event of events) {
      const { event_id } = event.common;
      const finding = { finding_id: `finding-${event_id}`, event_id, rule_id: rule.id, pack_id: "mine.pack" };
      ledger.append({
        event,
        findings: [finding, { ...finding, finding_id: `x-${event_id}`, pack_id: "policy.corp" }],
      });
    }
    await ledger.close();
    const [counted] = await find();
    assertEquals([counted.match_count, counted.last_matched_event, counted.last_matched_unix_ms], [
      2,
      events[1].common.event_id,
      events[1].common.timestamp_unix_ms,
    ]);
    assertEquals(await stats(), [["mine.pack", 2, events[1].common.event_id, "profile"]]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a pack that is put into the folder by hand is noticed, and one that is broken is a problem", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const corp = new CorpStore(home, { managed: join(dir, "corp.toml") });
    const settings = await SettingsStore.open({
      home,
      corp,
      definitions: await loadDefinitions({ get: () => undefined }),
    });
    const service = new Service({ home, settings, corp });
    let noticed = Promise.withResolvers<void>();
    const { activeDetections } = service;
    const reload = activeDetections.reload.bind(activeDetections);
    activeDetections.reload = async () => {
      const propagation = await reload();
      noticed.resolve();
      return propagation;
    };
    service.watch();
    // The folder appears with its file.
    await Deno.mkdir(join(dir, "ahead/packs"), { recursive: true });
    await Deno.writeTextFile(join(dir, "ahead/packs/broken.yaml"), "title: 3\n");
    await Deno.rename(join(dir, "ahead"), join(dir, "detection"));
    await noticed.promise;
    assertEquals(service.detections.problems().length, 1);
    noticed = Promise.withResolvers<void>();
    await Deno.writeTextFile(join(dir, "detection/packs/broken.yaml"), PACK);
    await noticed.promise;
    assertEquals(service.detections.problems(), []);
    assertEquals((await activeDetections.stats()).rules.map(({ id, scope }) => [id, scope]), [
      ["paste-site", "user"],
    ]);
    // So is a rule that is switched off in the file.
    noticed = Promise.withResolvers<void>();
    await Deno.writeTextFile(
      join(dir, "detection/disabled.toml"),
      '[rules.paste-site]\nreason = "ours"\nat = "2026-01-02T03:04:05Z"\n',
      { mode: 0o600 },
    );
    await noticed.promise;
    assertEquals((await activeDetections.list()).rules.map(({ enabled }) => enabled), [false]);
    await service.close();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("an overlay is replaced when that is asked for, on record, and undone", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const corp = new CorpStore(home, { managed: join(dir, "corp.toml") });
    const settings = await SettingsStore.open({
      home,
      corp,
      definitions: await loadDefinitions({ get: () => undefined }),
    });
    const { activeDetections, rules } = new Service({ home, settings, corp });
    const by = { user: "ann", client: "sbx/1" };
    const put = (host: string, replace = false) =>
      activeDetections.put(
        { rule: ruleOf("mine", { "http.request.host": host }), enabled: true, replace },
        by,
      );
    const hosts = async () =>
      JSON.stringify((await activeDetections.list()).rules.map((each) => each.definition));
    await put("a.example");
    const { code } = await assertRejects(() => put("b.example"), SbxError);
    assertEquals([code, (await hosts()).includes("a.example")], ["detection.conflict", true]);
    await put("b.example", true);
    await activeDetections.remove("mine", by);
    for (const host of ["b.example", "a.example"]) {
      const what = host === "b.example" ? "delete" : "edit";
      const change = (await rules.changes()).find((each) => !each.undoes && each.what === what)!;
      if (change.kind !== "detection") throw new Error(what);
      assertEquals([change.detection_id, change.by], ["mine", by]);
      await activeDetections.undo(change, by);
      assertEquals((await hosts()).includes(host), true);
      // It has changed since: by the undo.
      const again = await assertRejects(() => activeDetections.undo(change, by), SbxError);
      assertEquals(again.code, "policy.change.conflict");
    }
    assertEquals((await rules.changes()).map(({ what }) => what), [
      "edit",
      "create",
      "delete",
      "edit",
      "create",
    ]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

const CORP_PACK = PACK.replace("mine.pack", "corp.pack").replace("owner: user", "owner: corp")
  .replaceAll("paste-site", "corp-site");

Deno.test("a rule of a pack is switched off with a reason and on record, but not corp's", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const managed = join(dir, "corp.toml");
    await Deno.writeTextFile(managed, '[corp_rule_files]\nsigma = "corp.yaml"\n');
    await Deno.writeTextFile(join(dir, "corp.yaml"), CORP_PACK);
    await Deno.mkdir(join(dir, "detection/packs"), { recursive: true });
    await Deno.writeTextFile(join(dir, "detection/packs/mine.yaml"), PACK);
    const corp = new CorpStore(home, { managed });
    const settings = await SettingsStore.open({
      home,
      corp,
      definitions: await loadDefinitions({ get: () => undefined }),
    });
    const { activeDetections, detections, rules } = new Service({ home, settings, corp });
    const by = { user: "ann", client: "sbx/1" };
    const off = (id: string) => activeDetections.switchRule(id, { enabled: false, reason: "ours" }, by);
    /** Ids of the rules that a VM of these contracts would run. */
    const inForce = async () => {
      const none = { rules: [], mcp: {}, providers: [] };
      const contract = {
        corp: await corpLayer(corp),
        profile: { ...none, packs: [] },
        detection: await detections.irs(),
      };
      return detectionsOf(contract).flatMap((ir) => ir.rules.map(({ id }) => id));
    };
    const listed = async () =>
      (await activeDetections.list()).rules.map((
        { id, enabled, off },
      ) => [id, enabled, off?.reason, off?.by]);

    assertEquals(await inForce(), ["corp-site", "paste-site"]);
    await off("paste-site");
    assertEquals(await inForce(), ["corp-site"]);
    assertEquals(await listed(), [
      ["corp-site", true, undefined, undefined],
      ["paste-site", false, "ours", "ann"],
    ]);
    for (const [id, code] of [["corp-site", "detection.corp"], ["paste-sit", "detection.not_found"]]) {
      assertEquals((await assertRejects(() => off(id), SbxError)).code, code);
    }
    // Nor does an edit of the file by hand switch off a rule of corp's.
    const path = join(dir, "detection/disabled.toml");
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, text + text.replace("paste-site", "corp-site"));
    assertEquals(await inForce(), ["corp-site"]);
    assertEquals((await listed())[0], ["corp-site", true, undefined, undefined]);

    const [change] = await rules.changes();
    if (change.kind !== "detection") throw new Error(change.kind);
    assertEquals([change.what, change.detection_id, change.pack_id, change.after?.reason], [
      "disable",
      "paste-site",
      "mine.pack",
      "ours",
    ]);
    await activeDetections.undo(change, by);
    assertEquals(await inForce(), ["corp-site", "paste-site"]);
    const again = await assertRejects(() => activeDetections.undo(change, by), SbxError);
    assertEquals(again.code, "policy.change.conflict");
    assertEquals((await rules.changes()).map(({ what }) => what), ["enable", "disable"]);

    // A file that others may write switches nothing off.
    await off("paste-site");
    assertEquals(await inForce(), ["corp-site"]);
    await Deno.chmod(path, 0o666);
    assertEquals(await inForce(), ["corp-site", "paste-site"]);
    assertStringIncludes(detections.problems().join(), "can be changed by other users (mode 0666)");
    assertEquals((await assertRejects(() => off("paste-site"), SbxError)).code, "detection.disabled");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a Sigma rule that is switched off finds nothing, and still counts in a correlation", async () => {
  const rule = `title: Upload
id: 11111111-1111-4111-8111-111111111111
name: upload
logsource: { category: proxy }
detection:
  selection: { cs-method: POST }
  condition: selection
level: low
`;
  const correlation = `title: Two uploads
id: 22222222-2222-4222-8222-222222222222
correlation:
  type: event_count
  rules: [upload]
  timespan: 1h
  condition: { gte: 2 }
  generate: true
level: high
`;
  const path = await Deno.makeTempFile({ suffix: ".yaml" });
  try {
    await Deno.writeTextFile(path, `${rule}---\n${correlation}`);
    const { ir } = await loadPack(path);
    const idsOf = (off: string[]) => {
      const matcher = new Matcher(withoutRules([ir], off));
      return [1, 2].map(() =>
        matcher.match(requestEvent("http.request", { method: "POST" })).map(({ title }) => title)
      );
    };
    const [upload] = ir.rules.map(({ id }) => id);
    assertEquals(idsOf([]), [["Upload"], ["Upload", "Two uploads"]]);
    assertEquals(idsOf([upload]), [[], ["Two uploads"]]);
  } finally {
    await Deno.remove(path);
  }
});
