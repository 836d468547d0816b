/** Hand-written Sigma rules, one per construct; the first line of each states the expected result. */
import { assert, assertEquals } from "@std/assert";
import { compilePack, reportPortability } from "../../../lib/detection/compile/mod.ts";
import { checkPack, type Pack, readPack } from "../../../lib/detection/pack/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

const FOLDER = fromRoot("fixtures/detection/corpus");
const names = [...Deno.readDirSync(FOLDER)].map(({ name }) => name).sort();
const { pack } = await readPack(fromRoot("fixtures/detection/corpus.mapping.yaml"));

/** Pack with the corpus mapping and one rule of the corpus as its source. */
function packOfRule(name: string): Pack {
  const { document: _, folder, ...envelope } = pack!;
  const source = { id: "the-rule", type: "sigma", format: "yaml", path: `corpus/${name}` };
  const value = { ...envelope, sources: [source] };
  return checkPack({ value, placeOf: () => ({}), textPlaceOf: () => ({}) }, folder).pack!;
}

Deno.test("the corpus has a rule for each construct", () => {
  assert(names.length >= 60, `${names.length} rules`);
  assert(names.filter((name) => name.startsWith("accepted-")).length >= 15);
});

for (const name of names) {
  Deno.test(`corpus: ${name.replace(".yml", "")}`, async () => {
    const [first] = (await Deno.readTextFile(`${FOLDER}/${name}`)).split("\n");
    const { ir, problems } = await compilePack(packOfRule(name));
    const errors = problems.filter(({ severity }) => severity === "error");
    if (first === "# accepted") {
      assertEquals(errors, []);
      assertEquals(ir!.rules.map(({ id }) => id), ["the-rule"]);
      return;
    }
    const [, codes, line] = /^# refused ([a-z,-]+) (\d+)$/.exec(first)!;
    assertEquals(ir, undefined);
    assertEquals(
      [...new Set(errors.map(({ code }) => code))].sort(),
      codes.split(","),
      JSON.stringify(errors),
    );
    // Errors have the file, the line and an explanation.
    assertEquals(errors[0].file, `${FOLDER}/${name}`);
    assert(errors.some((error) => error.line === Number(line)), JSON.stringify(errors));
    for (const { message } of errors) assert(message.length > 20, message);
  });
}

Deno.test("the portability report agrees with the compiler, and counts the reasons", async () => {
  const report = await reportPortability(FOLDER, { mapping: pack!.field_mapping });
  const rejected = names.filter((name) => name.startsWith("refused-"));
  // Foreign files may have several documents: one rule of the corpus counts as two valid rules.
  assertEquals(report.rule_count, names.length + 1);
  assertEquals(report.accepted, report.rule_count - rejected.length + 1);
  const count = (code: string) => report.reasons.find((reason) => reason.code === code)?.rules;
  assertEquals(count("field-modifier"), 14);
  assertEquals(count("value-wildcard"), 3);
  assertEquals(count("duplicate-key"), 1);
  assert(report.missing_mappings.some(({ field, rules }) => field === "UserAgent" && rules === 1));
  const splitOf = (name: string) => report.rules.find(({ path }) => path.endsWith(`${name}.yml`))!.split;
  assertEquals(splitOf("refused-condition-or"), { rules: 2, parts: ["hosts", "methods"] });
  assertEquals(splitOf("refused-condition-and"), { rules: 1, parts: ["hosts + methods"] });
  assertEquals(splitOf("refused-list-of-maps"), { rules: 2, parts: ["selection[0]", "selection[1]"] });
  assertEquals(splitOf("refused-condition-one-of")?.rules, 2);
  assertEquals(splitOf("refused-condition-all-of-them")?.rules, 1);
  assertEquals(splitOf("refused-condition-not"), undefined);
  assertEquals(splitOf("refused-condition-aggregation"), undefined);
});
