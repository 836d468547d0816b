/** The golden chain: pack → IR → findings, and the schemas of both. */
import { assertEquals } from "@std/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import { compileOrThrow, irOf, planOf } from "../../../lib/detection/compile.ts";
import { irText } from "../../../lib/detection/ir.ts";
import { readPack } from "../../../lib/detection/pack/pack.ts";
import { checkEvents } from "../../../lib/detection/replay/check.ts";
import type { SbxError } from "../../../lib/base/error/mod.ts";
import { readToml } from "../../../lib/toml/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

const fixture = (name: string) => fromRoot(`fixtures/detection/${name}`);
const read = (path: string) => Deno.readTextFile(fromRoot(path));
const readJson = async (path: string) => JSON.parse(await read(path));

async function isValid(schema: string, value: unknown): Promise<boolean> {
  return new Ajv2020({ strict: false }).compile(await readJson(`schemas/${schema}.schema.json`))(value);
}

Deno.test("a pack compiles to its golden IR, byte for byte", async () => {
  const ir = await compileOrThrow(await readPack(fixture("agent-egress.pack.yaml")));
  assertEquals(irText(ir), await read("fixtures/detection/agent-egress.ir.json"));
  assertEquals(irOf(await readJson("fixtures/detection/agent-egress.ir.json")), ir);
});

Deno.test("the golden IR finds the golden findings", async () => {
  const ir = irOf(await readJson("fixtures/detection/agent-egress.ir.json"));
  const { report: { timing, ...report } } = await checkEvents(ir, fixture("agent-egress.events.jsonl"));
  const golden = await readJson("fixtures/detection/agent-egress.check.json");
  assertEquals({ ...report, diagnostics: [] }, golden);
  assertEquals(typeof timing.duration_ms, "number");
});

Deno.test("YAML, TOML and JSON are the same pack, and compile to the schema's golden IR", async () => {
  const golden = await read("schemas/fixtures/detection-ir-v1-valid.json");
  const plans = new Set<string>();
  for (const format of ["yaml", "toml", "json"]) {
    const ir = await compileOrThrow(await readPack(fixture(`minimal.pack.${format}`)));
    assertEquals(irText(ir), golden, format);
    plans.add(planOf(ir));
  }
  assertEquals(plans.size, 1);
});

Deno.test("the schemas take what sbx takes, and refuse an extra field as sbx does", async () => {
  const valid = await readJson("schemas/fixtures/detection-ir-v1-valid.json");
  const extra = await readJson("schemas/fixtures/detection-ir-v1-invalid-extra-field.json");
  assertEquals(await isValid("sbx.detection.ir.v1", valid), true);
  assertEquals(
    await isValid("sbx.detection.ir.v1", await readJson("fixtures/detection/agent-egress.ir.json")),
    true,
  );
  assertEquals(await isValid("sbx.detection.ir.v1", extra), false);
  irOf(valid);
  let refused: unknown;
  try {
    irOf(extra);
  } catch (error) {
    refused = error;
  }
  assertEquals((refused as SbxError).code, "detection.invalid");
  assertEquals((refused as SbxError).message.includes("aggregation"), true);
  const pack = (await readToml(fixture("minimal.pack.toml"))).value;
  assertEquals(await isValid("sbx.detection-pack.v1", pack), true);
  assertEquals(await isValid("sbx.detection-pack.v1", { ...pack, extra: 1 }), false);
});
