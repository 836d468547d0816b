/** `sbx-admin detection` as a program: exit codes, reports, standard output and standard error. */
import { assert, assertEquals } from "@std/assert";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

const PACK = "fixtures/detection/agent-egress.pack.yaml";
const EVENTS = "fixtures/detection/agent-egress.events.jsonl";

async function admin(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const { code, stdout, stderr } = await runChild(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--quiet", "main.ts", "admin", "detection", ...args],
    cwd: fromRoot(""),
  });
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

async function withFiles(files: Record<string, string>, run: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${dir}/${name}`, text);
    await run(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const pack = await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.yaml"));
const broken = pack.replace("Host: api.github.com", "Host|contains: github").replace(
  "status: active",
  "status: deprecated",
);

Deno.test("validate: reports on the envelope; exit code 1 if it is invalid", async () => {
  const good = await admin("validate", PACK, "--json");
  assertEquals([good.code, JSON.parse(good.out)], [0, {
    schema: "sbx.detection-pack-validation.v1",
    ok: true,
    path: PACK,
    diagnostics: [],
    pack_id: "sbx.agent-egress",
    version: "1.2.0",
  }]);
  await withFiles({ "p.yaml": pack.replace("owner: user", "owner: me"), "c.yaml": broken }, async (dir) => {
    const { code, out, err } = await admin("validate", `${dir}/p.yaml`);
    assertEquals([code, out, err], [
      1,
      "",
      `${dir}/p.yaml:5: must be one of "corp", "vendor", "user" [owner]\n`,
    ]);
    // Only the compiler checks the sources.
    assertEquals((await admin("validate", `${dir}/c.yaml`)).code, 0);
    const missing = await admin("validate", `${dir}/none.yaml`, "--json");
    assertEquals([missing.code, JSON.parse(missing.out).code], [1, "detection.not_found"]);
  });
  assertEquals((await admin("validate")).code, 2);
});

Deno.test("compile: writes the IR to a file or standard output, and reports every unsupported construct", async () => {
  await withFiles({ "p.yaml": pack, "c.yaml": broken }, async (dir) => {
    const golden = await Deno.readTextFile(fromRoot("schemas/fixtures/detection-ir-v1-valid.json"));
    const { code, out } = await admin("compile", `${dir}/p.yaml`);
    assertEquals([code, out], [0, golden]);
    const written = await admin("compile", `${dir}/p.yaml`, "--out", `${dir}/ir.json`, "--json");
    assertEquals(JSON.parse(written.out), {
      schema: "sbx.detection-compile.v1",
      ok: true,
      pack_id: "sbx.minimal",
      pack_version: "1.0.0",
      rule_count: 1,
      output_path: `${dir}/ir.json`,
      diagnostics: [],
    });
    assertEquals(await Deno.readTextFile(`${dir}/ir.json`), golden);
    const refused = await admin("compile", `${dir}/c.yaml`, "--out", `${dir}/no.json`, "--json");
    const report = JSON.parse(refused.out);
    assertEquals([refused.code, report.ok, report.rule_count, report.output_path], [1, false, 0, undefined]);
    assert(report.diagnostics[0].message.includes("c.yaml:4: warning: the pack is deprecated"));
    assert(report.diagnostics[1].message.includes('c.yaml:24: Host|contains: the modifier "contains"'));
    assertEquals(await Deno.stat(`${dir}/no.json`).catch(() => null), null);
  });
});

Deno.test("backtest: check report, JUnit; exit code 1 for differences", async () => {
  await withFiles({ "c.yaml": broken }, async (dir) => {
    const good = await admin("backtest", PACK, "--events", EVENTS, "--junit", `${dir}/j.xml`, "--json");
    const { timing, ...report } = JSON.parse(good.out);
    const golden = JSON.parse(
      await Deno.readTextFile(fromRoot("fixtures/detection/agent-egress.check.json")),
    );
    assertEquals([good.code, report, typeof timing.duration_ms], [0, golden, "number"]);
    assert((await Deno.readTextFile(`${dir}/j.xml`)).includes('tests="9" failures="0"'));
    const lines = (await Deno.readTextFile(fromRoot(EVENTS))).trim().split("\n");
    await Deno.writeTextFile(
      `${dir}/e.jsonl`,
      [lines[0].replace("paste-upload", "other"), "{", lines[3]].join("\n"),
    );
    const bad = await admin("backtest", PACK, "--events", `${dir}/e.jsonl`);
    assertEquals(bad.code, 1);
    assert(bad.err.includes(`${dir}/e.jsonl:2: invalid JSON: `), bad.err);
    assert(
      bad.err.includes(`${dir}/e.jsonl:1: missed labels: other; unexpected rules: paste-upload`),
      bad.err,
    );
    assert(bad.out.includes("NOT OK: 2 findings of 8 rules in 2 events"), bad.out);
    const uncompiled = await admin("backtest", `${dir}/c.yaml`, "--events", EVENTS, "--json");
    const { ok, pack_id, event_count } = JSON.parse(uncompiled.out);
    assertEquals([uncompiled.code, ok, pack_id, event_count], [1, false, "sbx.minimal", 0]);
    assertEquals((await admin("backtest", PACK)).code, 2);
    assertEquals((await admin("backtest", PACK, "--events", `${dir}/none.jsonl`)).code, 1);
  });
});

Deno.test("portability: counts by construct in a folder", async () => {
  const args = [
    "portability",
    "fixtures/detection/corpus",
    "--mapping",
    "fixtures/detection/corpus.mapping.yaml",
  ];
  const { code, out } = await admin(...args, "--json");
  const { schema, reasons, accepted, rule_count } = JSON.parse(out);
  assertEquals([code, schema, reasons[0].code], [0, "sbx.detection-portability.v1", "field-modifier"]);
  assert(accepted > 15 && accepted < rule_count);
  assert((await admin(...args)).out.includes("rules  not accepted because of"));
});
