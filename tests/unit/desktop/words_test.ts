/** The word diff of the MCP page against a server that writes the marks of a diff into its texts. */
import { assertEquals } from "@std/assert";
import { partsOf } from "../../../cmd/desktop/page/mcp/words.ts";
import { definitionDiff, renderDiff } from "../../../lib/mcp/mod.ts";

type Definition = Parameters<typeof definitionDiff>[0];

/** Parts that the page draws for a change of the description, or of the schema. */
function drawn(before: Partial<Definition>, after: Partial<Definition>) {
  const of = (changed: Partial<Definition>): Definition => ({
    name: "read",
    description: "",
    input_schema: {},
    ...changed,
  });
  const change = { before: of(before), after: of(after) };
  return definitionDiff(change.before, change.after).map(({ field, parts }) =>
    partsOf(change as never, { field, text: renderDiff(parts) }).filter(({ text }) => text !== "")
  );
}

Deno.test("desktop: an honest diff is drawn word by word", () => {
  assertEquals(drawn({ description: "reads a file" }, { description: "reads your file" }), [[
    { op: "same", text: "reads " },
    { op: "remove", text: "a" },
    { op: "add", text: "your" },
    { op: "same", text: " file" },
  ]]);
});

Deno.test("desktop: a schema is compared as the service compares it, whatever the order of its keys", () => {
  const [parts] = drawn(
    { input_schema: { type: "object", properties: { b: {}, a: {} } } },
    { input_schema: { properties: { a: {}, b: {}, c: {} }, type: "object" } },
  );
  assertEquals(parts.some(({ op }) => op === "same"), true);
  assertEquals(parts.some(({ op, text }) => op === "add" && text.includes('"c"')), true);
});

Deno.test("desktop: forged marks make both versions shown whole", () => {
  for (const forged of ["reads +} and [-sends-] {+ it", "reads [-a secret-]", "reads {+nothing+} new"]) {
    const [parts] = drawn({ description: "reads" }, { description: forged });
    const after = parts.filter(({ op }) => op !== "remove").map(({ text }) => text).join("");
    assertEquals(after, forged);
    const same = parts.filter(({ op }) => op === "same").map(({ text }) => text).join("");
    assertEquals("reads".includes(same.trim()), true, `${forged} passes for old text: ${same}`);
  }
});
