/**
 * `@e2b/code-interpreter`, unmodified, against sbx e2b and a real VM: one sandbox takes
 * every case of code_interpreter.mjs.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { startE2b } from "../helper/e2b_server.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("the code interpreter, unmodified: cells, results, contexts, languages, time-outs, under policy and record", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("start");
    await sbx.ok("settings", "set", "app.e2b", "true");
    const server = await startE2b(sbx);
    const { code, lines, stderr } = await server.client("code_interpreter.mjs");
    for (const line of lines) {
      await t.step(line.replace(/^(ok|FAILED) /, ""), () => assertMatch(line, /^ok /, stderr));
    }
    assertEquals([code, lines.length], [0, 12], stderr);
    await t.step("its record has the programs and the refusal", async () => {
      const { body: { sessions: [session] } } = await sbx.api("GET", "/sessions/list");
      const { body: { events } } = await sbx.api("GET", `/sessions/${session.id}/events?limit=1000`);
      const text = JSON.stringify(events);
      assert(text.includes("python3") && text.includes("blocked.example"), text);
    });
    assertEquals(await server.end(), 0);
  } finally {
    await sbx.dispose();
  }
});
