/** Detections in force: pins, revocation, overlays that survive a restart, and API views. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import {
  loadPack,
  loadPinned,
  type OverlayInput,
  OVERLAYS_MAX,
  OverlayStore,
  overlayView,
  packViews,
} from "../../../lib/detection/active/mod.ts";
import { type DetectionIr, Matcher, mergeCounters, requirePinned } from "../../../lib/detection/mod.ts";
import { httpEvent, ir, rule } from "../../helper/detection.ts";
import { fromRoot } from "../../helper/repo.ts";

const PACK = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.yaml"));
const PACK_VALUE = JSON.parse(await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.json")));
const SIGMA = {
  id: "my-rule",
  sigma:
    "title: Mine\nlogsource: {product: sbx, category: http}\ndetection:\n  s: {Host: a.example}\n  condition: s\n",
  field_mapping: { http: { Host: "http.request.host" } },
};

async function inFolder(run: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const codeOf = async (promise: Promise<unknown>) => (await assertRejects(() => promise, SbxError)).code;

Deno.test("pins: id and version must match, and the pack must not be revoked", () => {
  const packs = [
    ir([], { pack_id: "a.pack", pack_version: "1" }),
    ir([], { pack_id: "b.pack", pack_version: "2" }),
  ];
  requirePinned([{ id: "a.pack", version: "1" }], packs);
  requirePinned([], packs);
  const rejection = (pins: { id: string; version: string }[], packs: DetectionIr[]) =>
    assertThrows(() => requirePinned(pins, packs), SbxError);
  assertEquals(rejection([{ id: "a.pack", version: "1.0" }], packs).code, "detection.pin_mismatch");
  assertEquals(rejection([{ id: "c.pack", version: "1" }], packs).code, "detection.not_found");
  const revoked = [ir([], { pack_id: "a.pack", pack_version: "1", pack_status: "revoked" })];
  assertEquals(rejection([{ id: "a.pack", version: "1" }], revoked).code, "detection.revoked");
  assertEquals(
    ["detection.pin_mismatch", "detection.revoked", "detection.conflict", "detection.invalid"].map(statusOf),
    [412, 409, 409, 400],
  );
});

Deno.test("a pinned pack is read at each launch, and rejected once it is revoked", () =>
  inFolder(async (dir) => {
    const pins = [{ id: "sbx.minimal", version: "1.0.0", path: "p.yaml" }];
    assertEquals(await codeOf(loadPinned(pins, dir)), "detection.not_found");
    await Deno.writeTextFile(`${dir}/p.yaml`, PACK);
    const [loaded] = await loadPinned(pins, dir);
    assertEquals([loaded.ir.rules.length, loaded.warnings, loaded.path], [1, [], `${dir}/p.yaml`]);
    assertEquals(await codeOf(loadPinned([{ ...pins[0], version: "2" }], dir)), "detection.pin_mismatch");
    assertEquals(await codeOf(loadPinned([...pins, ...pins], dir)), "detection.conflict");
    await Deno.writeTextFile(`${dir}/p.yaml`, PACK.replace("status: active", "status: deprecated"));
    assertEquals((await loadPack(`${dir}/p.yaml`)).warnings, [
      `${dir}/p.yaml:4: warning: the pack is deprecated`,
    ]);
    await Deno.writeTextFile(`${dir}/p.yaml`, PACK.replace("status: active", "status: revoked"));
    assertEquals(await codeOf(loadPinned(pins, dir)), "detection.revoked");
    await Deno.writeTextFile(
      `${dir}/p.yaml`,
      PACK.replace("condition: selection", "condition: not selection"),
    );
    assertEquals(await codeOf(loadPinned(pins, dir)), "detection.invalid");
  }));

Deno.test("overlays: packs and rules are added, replaced, disabled and removed, and survive a restart", () =>
  inFolder(async (dir) => {
    const store = await OverlayStore.open(`${dir}/overlays`);
    const pack = await store.put({ pack: PACK_VALUE });
    assertEquals([pack.id, pack.ir?.rules.length], ["sbx.minimal", 1]);
    await store.put({ rule: rule("ir-rule", { "http.request.host": "b.example" }) });
    await store.put({ rule: SIGMA });
    const matcher = new Matcher(store.irs());
    assertEquals(
      matcher.match(httpEvent(1, { host: "a.example" })).map(({ rule_id, pack_id }) => [rule_id, pack_id]),
      [
        ["my-rule", "runtime"],
      ],
    );
    await store.put({
      rule: { ...SIGMA, sigma: SIGMA.sigma.replace("a.example", "c.example") },
      enabled: false,
    });
    assertEquals(store.list().map(({ id, enabled }) => [id, enabled]), [
      ["ir-rule", true],
      ["my-rule", false],
      ["sbx.minimal", true],
    ]);
    assertEquals(store.irs().length, 2);
    const reopened = await OverlayStore.open(`${dir}/overlays`);
    assertEquals(reopened.list(), store.list());
    assertEquals((await reopened.remove("ir-rule")).id, "ir-rule");
    assertEquals(await codeOf(reopened.remove("ir-rule")), "detection.not_found");
    assertEquals(await codeOf(reopened.remove("../secrets")), "detection.not_found");
    assertEquals((await OverlayStore.open(`${dir}/overlays`)).list().map(({ id }) => id), [
      "my-rule",
      "sbx.minimal",
    ]);
    for await (const { name } of Deno.readDir(`${dir}/overlays`)) {
      assertEquals((await Deno.stat(`${dir}/overlays/${name}`)).mode! & 0o777, 0o600, name);
    }
  }));

Deno.test("invalid overlays change nothing", () =>
  inFolder(async (dir) => {
    const store = await OverlayStore.open(dir);
    const bad: [unknown, string][] = [
      [{ pack: { ...PACK_VALUE, status: "revoked" } }, "detection.revoked"],
      [{ pack: { ...PACK_VALUE, extra: 1 } }, "detection.invalid"],
      [{ rule: { ...SIGMA, sigma: SIGMA.sigma.replace("Host", "Host|contains") } }, "detection.invalid"],
      [{ rule: { ...SIGMA, id: "../../etc" } }, "detection.invalid"],
      [{ rule: rule("x-rule", { "dns.request.qname": "a" }, { event_family: "http" }) }, "detection.invalid"],
      [{}, "detection.invalid"],
      [{ pack: PACK_VALUE, rule: SIGMA }, "detection.invalid"],
    ];
    for (const [input, code] of bad) assertEquals(await codeOf(store.put(input as OverlayInput)), code);
    const veto = () => {
      throw new SbxError("detection.conflict", "a pack of the profile defines that rule");
    };
    assertEquals(await codeOf(store.put({ rule: SIGMA }, veto)), "detection.conflict");
    const kept = rule("kept", { "http.request.host": "a.example" });
    await store.put({ rule: kept }, undefined, { replaces: false });
    const other = rule("kept", { "http.request.host": "b.example" });
    assertEquals(
      await codeOf(store.put({ rule: other }, undefined, { replaces: false })),
      "detection.conflict",
    );
    assertEquals(store.list().find(({ id }) => id === "kept")?.definition, kept);
    await store.remove("kept");
    assertEquals(store.list(), []);
    assertEquals([...Deno.readDirSync(dir)], []);
    assert(OVERLAYS_MAX >= 100);
  }));

Deno.test("an invalid overlay file does not affect the others", () =>
  inFolder(async (dir) => {
    const store = await OverlayStore.open(dir);
    await store.put({ rule: SIGMA });
    await store.put({ pack: PACK_VALUE });
    await Deno.writeTextFile(`${dir}/broken.json`, "{");
    await Deno.writeTextFile(`${dir}/other.json`, await Deno.readTextFile(`${dir}/my-rule.json`));
    // A definition that only an earlier sbx accepted.
    const old = (await Deno.readTextFile(`${dir}/sbx.minimal.json`)).replace(
      "http.request.host",
      "http.request.hostname",
    );
    await Deno.writeTextFile(`${dir}/sbx.minimal.json`, old);
    const problems: string[] = [];
    const reopened = await OverlayStore.open(dir, (message) => problems.push(message));
    assertEquals(reopened.list().map(({ id, ir }) => [id, ir !== undefined]), [["my-rule", true], [
      "sbx.minimal",
      false,
    ]]);
    assertEquals(problems.length, 3);
    assert(problems.includes(`${dir}/broken.json: not JSON`), problems.join("\n"));
    assertEquals(reopened.irs().length, 1);
    assertEquals(overlayView(reopened.list()[1], []).compiled, false);
  }));

Deno.test("concurrent changes leave memory and files consistent", () =>
  inFolder(async (dir) => {
    const store = await OverlayStore.open(dir);
    await Promise.all(Array.from({ length: 40 }, (_, at) =>
      at % 4 === 3 ? store.remove(`rule-${at - 1}`).catch(() => {}) : store.put({
        rule: rule(`rule-${at}`, { "http.request.host": `h${at}` }),
      })));
    assertEquals((await OverlayStore.open(dir)).list(), store.list());
    assertEquals(store.list().length, 20);
  }));

Deno.test("views: one per rule of a pack, one per overlay, with counters summed over VMs", () => {
  const pack = ir([
    rule("one", { "http.request.host": "a.example" }),
    rule("two", { "http.request.method": "GET" }),
  ]);
  const matchers = [new Matcher([pack]), new Matcher([pack])];
  matchers[0].match(httpEvent(5, { host: "a.example" }));
  matchers[1].match(httpEvent(9));
  const counters = matchers.flatMap((matcher) => matcher.ruleCounters());
  assertEquals(mergeCounters(counters).map(({ match_count }) => match_count), [1, 2]);
  const views = packViews("profile", pack, counters);
  assertEquals(
    views.map((
      { id, scope, match_count, last_matched_event },
    ) => [id, scope, match_count, last_matched_event]),
    [
      ["one", "profile", 1, "000000000005"],
      ["two", "profile", 2, "000000000009"],
    ],
  );
  const overlay = { id: "test.pack", enabled: true, definition: {}, export_routes: [], ir: pack };
  const { match_count, last_matched_unix_ms, scope, compiled } = overlayView(overlay, counters);
  assertEquals([match_count, last_matched_unix_ms, scope, compiled], [3, 1_760_000_000_009, "runtime", true]);
});
