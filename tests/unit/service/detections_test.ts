/** Detections in force, while no VM runs. */
import { assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { Service } from "../../../lib/service/mod.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
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
