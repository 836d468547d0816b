/** Golden files: pack → IR → findings, and their JSON Schemas. */
import { assertEquals } from "@std/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import { compileOrThrow, planOf } from "../../../lib/detection/compile/mod.ts";
import { IrSchema } from "../../../lib/detection/schema.ts";
import { formatIr, TAGS_MAX } from "../../../lib/detection/mod.ts";
import { packOf, readPack } from "../../../lib/detection/pack/mod.ts";
import { checkEvents } from "../../../lib/detection/replay/mod.ts";
import { readToml } from "../../../lib/base/toml/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

const fixture = (name: string) => fromRoot(`fixtures/detection/${name}`);
const read = (path: string) => Deno.readTextFile(fromRoot(path));
const readJson = async (path: string) => JSON.parse(await read(path));

async function isValid(schema: string, value: unknown): Promise<boolean> {
  return new Ajv2020({ strict: false }).compile(await readJson(`schemas/${schema}.schema.json`))(value);
}

Deno.test("a pack compiles to its golden IR, byte for byte", async () => {
  const ir = await compileOrThrow(await readPack(fixture("agent-egress.pack.yaml")));
  assertEquals(formatIr(ir), await read("fixtures/detection/agent-egress.ir.json"));
  assertEquals(IrSchema.parse(await readJson("fixtures/detection/agent-egress.ir.json")), ir);
});

Deno.test("the golden IR produces the golden findings", async () => {
  const ir = IrSchema.parse(await readJson("fixtures/detection/agent-egress.ir.json"));
  const { report: { timing, ...report } } = await checkEvents(ir, fixture("agent-egress.events.jsonl"));
  const golden = await readJson("fixtures/detection/agent-egress.check.json");
  assertEquals({ ...report, diagnostics: [] }, golden);
  assertEquals(typeof timing.duration_ms, "number");
});

Deno.test("an IR with all the tags that a pack and its rule may have is a valid IR", async () => {
  const pack = await readJson("fixtures/detection/minimal.pack.json");
  const tags = (of: string) => Array.from({ length: TAGS_MAX }, (_, at) => `${of}.t${at}`);
  const [source] = pack.sources;
  const content = `${source.content}tags: [${tags("rule").join(", ")}]\n`;
  const ir = await compileOrThrow(packOf({
    ...pack,
    findings: { ...pack.findings, tags: tags("pack") },
    sources: [{ ...source, content }],
  }));
  assertEquals(ir.rules[0].tags.length, 2 * TAGS_MAX);
  assertEquals(IrSchema.parse(JSON.parse(formatIr(ir))), ir);
});

Deno.test("YAML, TOML and JSON packs compile to the same golden IR", async () => {
  const golden = await read("schemas/fixtures/detection-ir-v1-valid.json");
  const plans = new Set<string>();
  for (const format of ["yaml", "toml", "json"]) {
    const ir = await compileOrThrow(await readPack(fixture(`minimal.pack.${format}`)));
    assertEquals(formatIr(ir), golden, format);
    plans.add(planOf(ir));
  }
  assertEquals(plans.size, 1);
});

Deno.test("the JSON Schemas accept and reject the same documents as sbx", async () => {
  const valid = await readJson("schemas/fixtures/detection-ir-v1-valid.json");
  const extra = await readJson("schemas/fixtures/detection-ir-v1-invalid-extra-field.json");
  assertEquals(await isValid("sbx.detection.ir.v1", valid), true);
  assertEquals(
    await isValid("sbx.detection.ir.v1", await readJson("fixtures/detection/agent-egress.ir.json")),
    true,
  );
  assertEquals(await isValid("sbx.detection.ir.v1", extra), false);
  assertEquals(IrSchema.safeParse(valid).success, true);
  assertEquals(IrSchema.safeParse(extra).error?.issues.map(({ code }) => code), ["unrecognized_keys"]);
  const pack = (await readToml(fixture("minimal.pack.toml"))).value;
  assertEquals(await isValid("sbx.detection-pack.v1", pack), true);
  assertEquals(await isValid("sbx.detection-pack.v1", { ...pack, extra: 1 }), false);
});
