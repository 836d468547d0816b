/** Properties of detections over random rules, events and files. Seeds are fixed. */
import { assert, assertEquals } from "@std/assert";
import { compileRead } from "../../lib/detection/compile/mod.ts";
import { type IrRule, type Matchable, Matcher, type MatchValue } from "../../lib/detection/mod.ts";
import { checkPack, parseDocument } from "../../lib/detection/pack/mod.ts";
import { checkContext } from "../../lib/detection/replay/context.ts";
import { readLines } from "../../lib/detection/replay/lines.ts";
import { backtest } from "../../lib/detection/replay/mod.ts";
import { Notes } from "../../lib/detection/sigma/notes.ts";
import { readRule, readSigmaDocuments } from "../../lib/detection/sigma/rule.ts";
import { parseJson, TreeError, valueOf } from "../../lib/detection/tree/mod.ts";
import { catalogue, valueAt } from "../../lib/event/mod.ts";
import { PolicyContextSchema } from "../../lib/event/schema.ts";
import { ir, rule } from "../helper/detection.ts";
import { Random } from "../helper/random.ts";
import { fromRoot } from "../helper/repo.ts";

const PATHS = [...catalogue].filter(([path, { type }]) =>
  /^(http|dns|common)\./.test(path) && !/list|map/.test(type)
)
  .map(([path, { type }]) => ({ path, type }));
const VALUES: Record<string, MatchValue[]> = {
  string: [
    "",
    "a",
    "ab",
    "a.example",
    "b.example",
    "GET",
    "POST",
    "vm",
    "http.request",
    "ä",
    "x".repeat(300),
  ],
  number: [0, -1, 1, 80, 443, 1.5],
  bool: [true, false],
};

function randomRule(random: Random, id: number): IrRule {
  const family = random.pick(["http", "dns"] as const);
  const paths = PATHS.filter(({ path }) => path.startsWith(`${family}.`) || path.startsWith("common."));
  // A small set of fields, so that rules share them.
  const fields = Array.from({ length: 1 + random.below(3) }, () => paths[random.below(8) * 3 % paths.length]);
  const tests = fields.map(({ path, type }) =>
    [path, Array.from({ length: 1 + random.below(4) }, () => random.pick(VALUES[type]))] as const
  );
  return rule(`rule-${id}`, Object.fromEntries(tests), { event_family: family });
}

function randomEvent(random: Random): Matchable {
  const family = random.pick(["http", "dns"] as const);
  const event: Record<string, unknown> = {};
  for (const { path, type } of PATHS) {
    if (random.below(3) === 0) continue;
    const odd = random.below(12) === 0;
    set(event, path, odd ? random.pick([null, {}, [], "443", "true"]) : random.pick(VALUES[type]));
  }
  set(event, "common.event_type", family === "http" ? "http.request" : "dns.query");
  if (random.below(10) === 0) event[family] = random.pick([null, 7, "x", []]);
  return event as unknown as Matchable;
}

function set(event: Record<string, unknown>, path: string, value: unknown): void {
  const keys = path.split(".");
  const last = keys.pop()!;
  let inner = event;
  for (const key of keys) {
    if (typeof inner[key] !== "object" || inner[key] === null) inner[key] = {};
    inner = inner[key] as Record<string, unknown>;
  }
  inner[last] = value;
}

/** Reference implementation of docs/design/contracts/06-detection.md §6. */
function matchNaively(rules: readonly IrRule[], event: Matchable): string[] {
  const family = event.common.event_type.split(".")[0];
  return rules.filter(({ event_family, matchers }) =>
    event_family === family &&
    matchers.every(({ field_path, values }) => values.some((value) => value === valueAt(event, field_path)))
  ).map(({ id }) => id);
}

Deno.test("fuzz: the index agrees with a plain loop", () => {
  const random = new Random(6);
  let matches = 0;
  for (const count of [0, 1, 5, 7, 40, 400]) {
    for (let round = 0; round < 20; round++) {
      const rules = Array.from({ length: count }, (_, id) => randomRule(random, id));
      const matcher = new Matcher([ir(rules)]);
      for (let at = 0; at < 60; at++) {
        const event = randomEvent(random);
        const expected = matchNaively(rules, event);
        matches += expected.length;
        assertEquals(
          matcher.match(event).map(({ rule_id }) => rule_id),
          expected,
          JSON.stringify({ round, event }),
        );
      }
    }
  }
  assert(matches > 1000, `${matches} matches`);
});

Deno.test("fuzz: the fast event check agrees with the schema", () => {
  const random = new Random(66);
  let [good, bad] = [0, 0];
  for (let round = 0; round < 3000; round++) {
    const event = { schema_version: 1, ...randomEvent(random) } as Record<string, unknown>;
    delete event.dns;
    if (random.below(3) === 0) {
      set(event, random.pick(["http.request.hots", "commn.actor", "http.x", "dns.request"]), "x");
    }
    const isContext = checkContext(event) === undefined;
    const full = PolicyContextSchema.safeParse(event);
    // Only the schema checks enumerations and ranges.
    if (full.success) assertEquals(isContext, true, JSON.stringify(event));
    if (!isContext) assertEquals(full.success, false, JSON.stringify(event));
    isContext ? good++ : bad++;
  }
  assert(good > 100 && bad > 100, `${good} ${bad}`);
});

Deno.test("fuzz: damaged packs give problems with locations, and no exceptions", async () => {
  const random = new Random(666);
  const bits = [
    "'",
    '"',
    "[",
    "]",
    "{",
    "}",
    ":",
    "\n",
    "- ",
    "*",
    "&a",
    "!!str",
    "|",
    ">",
    "\t",
    "#",
    "%",
    "---",
    "\u0000",
    "😀",
    "null",
    "0x",
    "\\",
  ];
  const texts = await Promise.all(
    ["yaml", "toml", "json"].map(async (format) =>
      [format, await Deno.readTextFile(fromRoot(`fixtures/detection/minimal.pack.${format}`))] as const
    ),
  );
  let rejected = 0;
  for (let round = 0; round < 1500; round++) {
    const [format, good] = random.pick(texts);
    let text = good;
    for (let change = 1 + random.below(3); change > 0; change--) {
      const at = random.below(text.length);
      text = text.slice(0, at) + (random.below(3) ? random.pick(bits) : "") +
        text.slice(at + random.below(4));
    }
    const document = parseDocument(text, `p.${format}`);
    const problems = "code" in document ? [document] : (await compileRead(checkPack(document))).problems;
    for (const { message, file, line } of problems) {
      assertEquals(file, `p.${format}`);
      assert(line! >= 1 && line! <= text.split("\n").length + 1, `${line} ${message}`);
    }
    if (problems.length) rejected++;
  }
  assert(rejected > 500, `${rejected} rejected`);
});

Deno.test("fuzz: a split matches the same events as its rule", () => {
  const random = new Random(6666);
  const selections = ["a: {F: [1, 2]}", "b: {G: [1]}", "c: {H: [2, 3]}", "d: [{F: 3}, {G: 2, H: 1}]"];
  const holds = (name: string, e: Record<string, number>): boolean =>
    ({
      a: e.F === 1 || e.F === 2,
      b: e.G === 1,
      c: e.H === 2 || e.H === 3,
      "d[0]": e.F === 3,
      "d[1]": e.G === 2 && e.H === 1,
    })[name]!;
  const expression = (depth: number): string =>
    depth === 0 ? random.pick(["a", "b", "c", "d"]) : random.pick([
      () => `(${expression(depth - 1)} and ${expression(depth - 1)})`,
      () => `${expression(depth - 1)} or ${expression(depth - 1)}`,
      () => "1 of them",
      () => expression(0),
    ])();
  let splits = 0;
  for (let round = 0; round < 500; round++) {
    const condition = expression(1 + random.below(3));
    const text = `title: t\nlogsource: {product: sbx, category: http}\ndetection:\n  ${
      selections.join("\n  ")
    }\n  condition: ${condition}\n`;
    const notes = new Notes([], () => ({}));
    const [node] = readSigmaDocuments(text, notes);
    const { split } = readRule(node, notes);
    if (!split) continue;
    splits++;
    for (let at = 0; at < 64; at++) {
      const event = { F: at % 4, G: (at >> 2) % 4, H: at >> 4 };
      const all = {
        ...event,
        a: holds("a", event),
        b: holds("b", event),
        c: holds("c", event),
        d: holds("d[0]", event) || holds("d[1]", event),
      };
      const js = condition.replaceAll("1 of them", "(a || b || c || d)").replaceAll(" and ", " && ")
        .replaceAll(" or ", " || ");
      const expected = new Function("a", "b", "c", "d", `return ${js}`)(all.a, all.b, all.c, all.d);
      const found = split.parts.some((part) => part.split(" + ").every((name) => holds(name, event)));
      assertEquals(found, expected, `${condition} on ${JSON.stringify(event)}`);
    }
  }
  assert(splits > 100, `${splits} splits`);
});

Deno.test("fuzz: JSON parsed with lines equals JSON.parse", () => {
  const random = new Random(7);
  const value = (depth: number): unknown =>
    depth === 0
      ? random.pick(["", 'a"b\\', "\u2028\n", 0, -1.5e-3, true, null, "😀"])
      : random.below(2)
      ? Array.from({ length: random.below(4) }, () => value(depth - 1))
      : Object.fromEntries(Array.from({ length: random.below(4) }, (_, at) => [`k${at}"`, value(depth - 1)]));
  for (let round = 0; round < 1000; round++) {
    const expected = value(1 + random.below(4));
    const text = JSON.stringify(expected, null, random.below(3));
    assertEquals(valueOf(parseJson(text)), expected);
    const broken = text.slice(0, random.below(text.length)) + random.pick(["", "}", "\\", '"', ","]);
    try {
      parseJson(broken);
    } catch (error) {
      assert(error instanceof TreeError, broken);
    }
  }
});

Deno.test("fuzz: lines of random text equal a plain split", async () => {
  const random = new Random(77);
  const path = await Deno.makeTempFile();
  for (let round = 0; round < 60; round++) {
    const parts = Array.from(
      { length: random.below(40) },
      () =>
        random.below(4)
          ? "é€😀ab".repeat(random.below(random.below(5) ? 10 : 60_000))
          : random.pick(["", "\r", "\n", "\ufffd"]),
    );
    const text = parts.join(random.below(2) ? "\n" : "\r\n");
    await Deno.writeTextFile(path, text);
    const lines: string[] = [];
    const numbers: number[] = [];
    await readLines(path, {
      line: (line, number) => {
        lines.push(line);
        numbers.push(number);
      },
      fault: (_, message) => assert(false, message),
    });
    const expected = text.split("\n");
    // Text after the last line end is a line only if it is not empty.
    if (expected.at(-1) === "") expected.pop();
    assertEquals(lines, expected);
    assertEquals(numbers, expected.map((_, at) => at + 1));
  }
  await Deno.remove(path);
});

Deno.test("fuzz: backtest accepts any value as an event", () => {
  const random = new Random(777);
  const rules = [ir(Array.from({ length: 50 }, (_, id) => randomRule(random, id)))];
  const junk = [null, 1, "x", [], {}, { common: null }, { common: { event_type: 7 } }, {
    common: { event_type: "x" },
  }];
  for (let round = 0; round < 300; round++) {
    const cases = Array.from(
      { length: 5 },
      () => ({ context: random.below(2) ? random.pick(junk) : randomEvent(random) }),
    );
    const { rows, total_matches } = backtest(rules, cases);
    assert(rows.length <= 100 && total_matches >= 0);
  }
});
