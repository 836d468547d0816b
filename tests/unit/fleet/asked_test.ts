/**
 * The log of questions to a store's reader, whose values, names and groups come
 * from analysts and their provider.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Asked, AskedLog, readAsked, shownAsked } from "../../../lib/fleet/reader/mod.ts";

const QUESTION: Omit<Asked, "schema" | "number" | "previous" | "at"> = {
  subject: "ann",
  groups: [],
  question: "reached-host",
  teams: ["payments"],
  outcome: "allowed",
};

Deno.test("an account with more groups than a line holds is refused, and the log goes on for others", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const log = new AskedLog(dir);
    await log.append(QUESTION);
    const groups = Array.from({ length: 100 }, (_, at) => `${at}`.padEnd(4000, "x"));
    const refused = await assertRejects(() => log.append({ ...QUESTION, subject: "eve", groups }), SbxError);
    assertEquals(refused.code, "fleet.reader.denied");
    await log.append(QUESTION);
    const { asked, problem } = await readAsked(dir);
    assertEquals([asked.map(({ subject }) => subject), problem], [["ann", "ann"], undefined]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a value with line breaks stays on its line, and a name never hides the account", () => {
  const line = shownAsked({
    ...QUESTION,
    schema: "sbx.fleet-asked.v1",
    number: 1,
    previous: "0".repeat(64),
    at: "2026-11-29T10:00:00.000Z",
    subject: "eve",
    name: "bob@example.com",
    value: "x\n2026-11-29T10:00:01.000Z  allowed  bob@example.com  secrets (*)",
  });
  assertEquals(line.includes("\n"), false);
  assertEquals(line.includes("bob@example.com (eve)"), true);
});
