/** `sbx hunt --rules`: rules that only observe, over the sessions of this machine. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../../helper/child.ts";
import { requestEvent } from "../../helper/ledger.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";

const SBX = new URL("../../../bin/sbx", import.meta.url);

Deno.test("hunt --rules: matches of every session, with its own history; bad files and places are named", async () => {
  const home = await Deno.makeTempDir();
  const sbx = async (...args: string[]) => {
    const { code, stdout, stderr } = await runChild(SBX, {
      args: ["hunt", ...args],
      env: { SBX_HOME: home },
    });
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, out: text(stdout), err: text(stderr) };
  };
  const write = async (name: string, text: string) => {
    await Deno.writeTextFile(join(home, name), text);
    return join(home, name);
  };
  try {
    for (const session of ["s1", "s2"]) {
      const path = join(home, "ledgers", session, "session.db");
      await Deno.mkdir(join(home, "ledgers", session), { recursive: true });
      await using ledger = await Ledger.open(path, { sessionId: session });
      for (const decision of ["block", "allow", "allow"] as const) {
        const event = requestEvent("http.request", { host: "a.example" });
        event.common.session_id = session;
        ledger.append({ event, decision: { decision, rule: { id: "r" } } });
      }
    }
    const watch = await write(
      "watch.toml",
      `[profiles.rules.again]\nname = "again"\naction = "observe"\ndetection_level = "low"\n` +
        `match = 'history.seen("http.request.host", "1h")'\n` +
        `[corp.rules.all]\naction = "observe"\nmatch = 'http.request.host == "a.example"'\n` +
        `[profiles.rules.no]\naction = "block"\nmatch = 'true'\n`,
    );
    const { code, out } = await sbx("--rules", watch, "--json", "--fail");
    const { matches } = JSON.parse(out);
    assertEquals(code, 1);
    // What was blocked is no contact: only the third request of each session has an earlier one.
    assertEquals(
      matches.map((
        { session_id, rule_id, severity, title }: Record<string, string>,
      ) => [session_id, rule_id, severity, title].join(" ")),
      ["s1", "s2"].flatMap((session) => [
        ...Array(3).fill(`${session} all medium all`),
        `${session} again low again`,
      ]),
    );
    const blocking = await write("block.toml", `[profiles.rules.no]\naction = "block"\nmatch = 'true'\n`);
    assertEquals(
      (await sbx("--rules", blocking)).err.split("\n")[0],
      `sbx: no rule of ${blocking} has action "observe"`,
    );
    const fleet = await sbx("--rules", watch, "--over", "duckdb:///nowhere");
    assertEquals([fleet.code, fleet.err.split("\n")[0]], [
      2,
      "sbx: rules of policy cannot be evaluated over duckdb:///nowhere",
    ]);
    assertEquals((await sbx()).code, 2);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
