/**
 * Limits of time grow with SBX_TIME_FACTOR on slow machines (docs/design/contracts/14-limits.md §14, "Time").
 */
import { assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/** Calls that end a wait, with the constant of their limit. */
const LIMITED = [
  /\bAbortSignal\.timeout\((?:\d \* )?([A-Z][A-Z0-9_]+)\)/g,
  /\brejectAfter\(([A-Z][A-Z0-9_]+),/g,
  /\bwithDeadline\([^\n]*, ([A-Z][A-Z0-9_]+)\)/g,
  /\bperformance\.now\(\) \+ ([A-Z][A-Z0-9_]+)\b/g,
];
/** Names that say what a constant is. */
const NAMED = /const (\w*(?:DEADLINE|TIMEOUT)_(?:MS|SECS)) = ([^;]+);/g;

/** Limits that a slow machine does not change, and why. */
const FIXED: Record<string, string> = {
  "lib/client/api/vm.ts EXEC_TIMEOUT_MAX_SECS": "largest value of a request",
  "lib/service/record/waiting.ts READ_APART_MS": "pause between reads, not a limit of one",
  "cmd/sbx/vm/program.ts TIMEOUT_MAX_SECS": "largest value of an option",
  "cmd/mcp/tools/program.ts TIMEOUT_SECS": "value of a request that names none",
};

Deno.test("every limit of a wait is a timeLimit", async () => {
  const paths = (await Promise.all(["lib", "cmd"].map(codeBelow))).flat();
  const broken: string[] = [];
  for (const path of paths.filter((path) => !path.startsWith("cmd/desktop/"))) {
    const text = await Deno.readTextFile(fromRoot(path));
    const values = new Map(
      [...text.matchAll(/^(?:export )?const ([A-Z]\w+) = ([^;]+);/gm)].map((
        [, name, value],
      ) => [name, value]),
    );
    const used = LIMITED.flatMap((call) => [...text.matchAll(call)].map(([, name]) => name));
    const named = [...text.matchAll(NAMED)].map(([, name]) => name);
    for (const name of new Set([...used, ...named])) {
      const value = values.get(name);
      // Of another limit, or multiplied where it is used; lockWithin does that itself.
      const isLimit = new RegExp(`timeLimit\\(${name}\\)|lockWithin\\(\\w+, ${name}\\)`).test(text);
      if (value === undefined || isLimit || /timeLimit\(|_MS\b/.test(value)) continue;
      if (!FIXED[`${path} ${name}`]) broken.push(`${path} ${name} = ${value}`);
    }
  }
  assertEquals(broken, []);
});
