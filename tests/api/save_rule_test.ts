/** An ask that the command line saves as a rule of the profile, through the real service. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { saveAsRule } from "../../cmd/sbx/rules/answer.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { httpRequest } from "../helper/event.ts";
import { eventually } from "../helper/sbx.ts";
import { rule } from "../helper/session_gate.ts";

const MATCH = 'http.request.host == "asked.example"';
const RULES = "/profiles/code/enforcement/rules";

Deno.test("a rule that asks is saved as a narrower one, unless another author changed it meanwhile", async () => {
  await using home = await DesktopHome.make({
    rules: rule("profiles", "ask-site", "ask", MATCH, "ask_timeout = 900"),
    isBare: true,
  });
  const asks = { action: "ask", match: MATCH };
  const body = { rule_id: "ask-site", rule: asks };
  assertEquals((await home.ask("POST", `${RULES}/create`, body)).status, 200);
  const leave = new AbortController();
  const waiting = home.gate.decide({
    common: { event_type: "http.request", source_engine: "network" },
    http: { request: httpRequest({ host: "asked.example", path: "/a" }) },
  }, leave.signal);
  const said: string[] = [];
  const file = join(home.home.dir, "rules/code.toml");
  await home.withClient(async (client) => {
    let asked: { ask_id: string; session_id: string }[] = [];
    await eventually("it asks", async () => {
      ({ asks: asked } = await client.json<{ asks: typeof asked }>("GET", "/asks"));
      return asked.length === 1;
    });
    const [ask] = asked;
    await home.ledger.flush();
    const edited = { ...asks, match: `${MATCH} && http.request.method == "GET"` };
    const conflict = await assertRejects(
      () =>
        saveAsRule(client, ask, {}, async () => {
          assertEquals((await home.ask("PUT", `${RULES}/ask-site`, edited)).status, 200);
        }),
      SbxError,
    );
    assertEquals(conflict.code, "policy.change.conflict");
    assertEquals((await Deno.readTextFile(file)).includes("&& !("), false);
    await saveAsRule(client, ask, {}, (text) => Promise.resolve(void said.push(text)));
  });
  assertStringIncludes(said.join("\n"), 'the rule "ask-site" is changed');
  const saved = await Deno.readTextFile(file);
  assertStringIncludes(saved, 'http.request.method == \\"GET\\") && !(');
  leave.abort();
  await waiting;
});
