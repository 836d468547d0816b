/** Absent keys are found without an exception, with the results of the plain evaluation. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { environment, resetCost } from "../../../lib/policy/engine/cel.ts";
import { compileMatch, type Program } from "../../../lib/policy/engine/compile.ts";
import { FlatEvent } from "../../../lib/policy/engine/field.ts";
import { eventCommon, httpRequest } from "../../helper/event.ts";

/** The lowered expression without its look at keys. */
const GUARD = /__at\(\w+, "(?:\\.|[^"\\])*", /g;

function plainText(text: string): string {
  for (let at = text.search(GUARD); at >= 0; at = text.search(GUARD)) {
    const start = at + GUARD[Symbol.match](text.slice(at))![0].length;
    let end = start;
    let quoted = false;
    for (let depth = 1; depth > 0; end++) {
      const char = text[end];
      if (quoted && char === "\\") end++;
      else if (char === '"') quoted = !quoted;
      else if (!quoted && "([{".includes(char)) depth++;
      else if (!quoted && ")]}".includes(char)) depth--;
    }
    text = `${text.slice(0, at)}(${text.slice(start, end)}${text.slice(end)}`;
  }
  return text;
}

function resultOf(text: string, event: Event): unknown {
  resetCost();
  try {
    return (environment.parse(text) as Program)(new FlatEvent(event));
  } catch (error) {
    return `error: ${(error as { summary?: string }).summary ?? (error as Error).message}`;
  }
}

/** Numbers below a limit, the same in each run. */
function generator(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    return (seed >> 8) % below;
  };
}

const KEYS = ["a", "b", "constructor", "__proto__", "toString", "x-y", 'q"\\', ""];
const INDEXES = ["0", "1", "7", "-1", "1.0", '"a"', "null", "9007199254740993"];

function expression(pick: (below: number) => number): string {
  const one = <T>(list: readonly T[]) => list[pick(list.length)];
  const key = () => JSON.stringify(one(KEYS));
  const read = () =>
    one([
      () => `http.request.headers[${key()}]`,
      () => `http.request.headers[${key()}][${one(INDEXES)}]`,
      () => `http.request.headers.${one(["a", "b", "constructor"])}[${one(INDEXES)}]`,
      () => `mcp.request.arguments[${key()}]`,
      () => `mcp.request.arguments.${one(["a", "b"])}.${one(["a", "c"])}`,
      () => `mcp.request.arguments.${one(["a", "b"])}[${one([...INDEXES, key()])}][${one(INDEXES)}]`,
      () => `common.labels[${key()}]`,
      () => `http.request.host`,
    ])();
  const value = () =>
    one([read, read, () => '"v"', () => "1", () => "[1, 2]", () => "1 / 0", () => 'int("z")'])();
  const test = (): string =>
    one([
      () => `dyn(${value()}) ${one(["==", "!="])} dyn(${value()})`,
      () => `dyn(${value()}) in dyn(${value()})`,
      () => `dyn(${read()}).exists(e, e == "v" || dyn(${read()}) == e)`,
      () => `dyn(${read()}).all(e, e != "v")`,
      () => `string(dyn(${read()})).startsWith(string(dyn(${value()})))`,
      () => `size(dyn(${read()})) > 1`,
      () => `int(dyn(${read()})) + 1 == 2`,
      () => `has(http.request.headers.${one(["a", "b"])})`,
      () => `${read()} == "v"`,
      () => `"v" in ${read()}`,
    ])();
  return one([
    () => test(),
    () => `!(${test()})`,
    () => `${test()} && ${test()}`,
    () => `${test()} || ${test()}`,
    () => `(${test()} ? ${test()} : ${test()})`,
  ])();
}

function sample(pick: (below: number) => number): Event {
  const one = <T>(list: readonly T[]) => list[pick(list.length)];
  const some = (values: readonly unknown[]) => {
    const map: Record<string, unknown> = {};
    for (const key of KEYS) {
      if (pick(2)) {
        Object.defineProperty(map, key, { value: one(values), enumerable: true, configurable: true });
      }
    }
    return map;
  };
  const headers = some([["v"], ["1"], ["v", "w"], []]) as Record<string, string[]>;
  const args = some(["v", 1, true, null, [1, "v"], [["v"]], { a: "v" }, { a: ["v"], c: 1 }, []]);
  return {
    schema_version: 1,
    common: eventCommon("http.request", { labels: some(["v", "w"]) as Record<string, string> }),
    ...(pick(8) && { http: { request: httpRequest({ headers }) } }),
    ...(pick(8) && { mcp: { request: { arguments: args } } }),
  } as unknown as Event;
}

Deno.test("an expression with reads by key has the result of its plain evaluation", () => {
  const pick = generator(13);
  let guarded = 0;
  const seen = new Map<string, number>();
  for (let round = 0; round < 4000; round++) {
    const match = expression(pick);
    let text: string;
    try {
      text = compileMatch(match).text;
    } catch {
      continue; // type errors
    }
    const plain = plainText(text);
    assert(!plain.includes("__at"));
    if (plain !== text) guarded++;
    for (let at = 0; at < 6; at++) {
      const event = sample(pick);
      const expected = resultOf(plain, event);
      assertEquals(resultOf(text, event), expected, `${match} on ${JSON.stringify(event)}`);
      const kind = typeof expected === "boolean" ? String(expected) : "error";
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
    }
  }
  assert(guarded > 1000, `${guarded} expressions`);
  for (const kind of ["true", "false", "error"]) assert(seen.get(kind)! > 500, `${kind}: ${seen.get(kind)}`);
});

/** Expressions as people write them. */
const TYPICAL = [
  'http.request.headers["x"][0] == "v"',
  'http.request.headers.authorization[0].startsWith("Basic ")',
  '"v" in http.request.headers["x"]',
  'http.request.headers["x"].exists(v, v == "1")',
  'int(http.request.headers["content-length"][0]) > 1000',
  'mcp.request.arguments.path.startsWith("/etc")',
  'mcp.request.arguments["options"]["force"] == true',
  'common.labels["team"] == "red"',
];

Deno.test("keys of typical expressions are looked for before the library reads them", () => {
  for (const match of TYPICAL) assertStringIncludes(compileMatch(match).text, "__at(", match);
});
