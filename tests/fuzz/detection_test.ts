/** Properties of detections, over random rules, events and files with a fixed seed. */
import { assert, assertEquals } from "@std/assert";
import { compileRead } from "../../lib/detection/compile.ts";
import { type IrRule, type Matchable, Matcher, type MatchValue } from "../../lib/detection/mod.ts";
import { checkPack } from "../../lib/detection/pack/pack.ts";
import { parseDocument } from "../../lib/detection/pack/document.ts";
import { backtest } from "../../lib/detection/replay/backtest.ts";
import { contextFault } from "../../lib/detection/replay/context.ts";
import { readLines } from "../../lib/detection/replay/lines.ts";
import { Notes } from "../../lib/detection/sigma/notes.ts";
import { sigmaDocuments } from "../../lib/detection/sigma/read.ts";
import { readRule } from "../../lib/detection/sigma/rule.ts";
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
  const own = PATHS.filter(({ path }) => path.startsWith(`${family}.`) || path.startsWith("common."));
  // Few fields, so that rules share them.
  const fields = Array.from({ length: 1 + random.below(3) }, () => own[random.below(8) * 3 % own.length]);
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

/** What the specification says, and nothing else. */
function naive(rules: readonly IrRule[], event: Matchable): string[] {
  const family = event.common.event_type.split(".")[0];
  return rules.filter(({ event_family, matchers }) =>
    event_family === family &&
    matchers.every(({ field_path, values }) => values.some((value) => value === valueAt(event, field_path)))
  ).map(({ id }) => id);
}

Deno.test("fuzz: the index finds what a plain loop finds", () => {
  const random = new Random(6);
  let found = 0;
  for (const count of [0, 1, 5, 7, 40, 400]) {
    for (let round = 0; round < 20; round++) {
      const rules = Array.from({ length: count }, (_, id) => randomRule(random, id));
      const matcher = new Matcher([ir(rules)]);
      for (let at = 0; at < 60; at++) {
        const event = randomEvent(random);
        const wanted = naive(rules, event);
        found += wanted.length;
        assertEquals(
          matcher.match(event).map(({ rule_id }) => rule_id),
          wanted,
          JSON.stringify({ round, event }),
        );
      }
    }
  }
  assert(found > 1000, `${found} matches`);
});

Deno.test("fuzz: a quick look at an event and the schema are of one mind", () => {
  const random = new Random(66);
  let [good, bad] = [0, 0];
  for (let round = 0; round < 3000; round++) {
    const event = { schema_version: 1, ...randomEvent(random) } as Record<string, unknown>;
    delete event.dns;
    if (random.below(3) === 0) {
      set(event, random.pick(["http.request.hots", "commn.actor", "http.x", "dns.request"]), "x");
    }
    const quick = contextFault(event) === undefined;
    const full = PolicyContextSchema.safeParse(event);
    // Enumerations and ranges are the schema's alone.
    if (full.success) assertEquals(quick, true, JSON.stringify(event));
    if (!quick) assertEquals(full.success, false, JSON.stringify(event));
    quick ? good++ : bad++;
  }
  assert(good > 100 && bad > 100, `${good} ${bad}`);
});

Deno.test("fuzz: broken packs give problems with places, and nothing else", async () => {
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
  let refused = 0;
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
    if (problems.length) refused++;
  }
  assert(refused > 500, `${refused} refused`);
});

Deno.test("fuzz: what portability calls a split finds the same events", () => {
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
    const [node] = sigmaDocuments(text, notes);
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
      const wanted = new Function("a", "b", "c", "d", `return ${js}`)(all.a, all.b, all.c, all.d);
      const found = split.parts.some((part) => part.split(" + ").every((name) => holds(name, event)));
      assertEquals(found, wanted, `${condition} on ${JSON.stringify(event)}`);
    }
  }
  assert(splits > 100, `${splits} splits`);
});

Deno.test("fuzz: JSON with places is the JSON that it is", () => {
  const random = new Random(7);
  const value = (depth: number): unknown =>
    depth === 0
      ? random.pick(["", 'a"b\\', "\u2028\n", 0, -1.5e-3, true, null, "😀"])
      : random.below(2)
      ? Array.from({ length: random.below(4) }, () => value(depth - 1))
      : Object.fromEntries(Array.from({ length: random.below(4) }, (_, at) => [`k${at}"`, value(depth - 1)]));
  for (let round = 0; round < 1000; round++) {
    const wanted = value(1 + random.below(4));
    const text = JSON.stringify(wanted, null, random.below(3));
    assertEquals(valueOf(parseJson(text)), wanted);
    const broken = text.slice(0, random.below(text.length)) + random.pick(["", "}", "\\", '"', ","]);
    try {
      parseJson(broken);
    } catch (error) {
      assert(error instanceof TreeError, broken);
    }
  }
});

Deno.test("fuzz: lines of random bytes are those of a plain split", async () => {
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
    const wanted = text.split("\n");
    // What comes after the last line end is a line only if there is something.
    if (wanted.at(-1) === "") wanted.pop();
    assertEquals(lines, wanted);
    assertEquals(numbers, wanted.map((_, at) => at + 1));
  }
  await Deno.remove(path);
});

Deno.test("fuzz: backtest takes anything for an event", () => {
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
