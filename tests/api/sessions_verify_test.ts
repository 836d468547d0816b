/** `sbx sessions verify`: the register of a home, by its files. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { Register, registerPath } from "../../lib/fleet/register/mod.ts";
import { ensureSigningKey } from "../../lib/release/signing/mod.ts";
import { START_HEADS } from "../../lib/ledger/mod.ts";
import { runChild } from "../helper/child.ts";
import { SESSION_A, SESSION_B } from "../helper/fleet.ts";
import { fromRoot } from "../helper/repo.ts";

const SESSION_C = "0192f0c1-2222-7333-8444-5555aaaa0003";

Deno.test("sessions verify names records that are gone, and entries that were removed", async () => {
  const dir = await Deno.makeTempDir();
  const run = async (...args: string[]) => {
    const env = { SBX_HOME: dir, NO_COLOR: "1" };
    const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx"), {
      args: ["sessions", ...args],
      env,
    });
    return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
  };
  try {
    assertStringIncludes((await run("verify")).text, "there is no register of sessions");
    const register = await Register.open({ dir }, await ensureSigningKey({ dir }));
    for (const id of [SESSION_A, SESSION_B]) {
      await register.begin(id);
      await Deno.mkdir(join(dir, "ledgers", id), { recursive: true });
      await Deno.writeTextFile(join(dir, "ledgers", id, "session.db"), "");
    }
    const good = await run("verify", "--json");
    const { ok, entries, sessions, problems } = JSON.parse(good.text);
    assertEquals([good.code, ok, entries, sessions, problems], [0, true, 2, 2, []]);

    await Deno.remove(join(dir, "ledgers", SESSION_B), { recursive: true });
    const gone = await run("verify");
    assertEquals(gone.code, 1);
    assertStringIncludes(gone.text, `session ${SESSION_B}, number 2, has no record, and no tombstone`);
    // A tombstone written after the record was destroyed by other hands hides nothing.
    await register.remove(SESSION_B, {
      reason: "person",
      heads: null,
      by: { user: "ann", client: "sbx" },
    });
    const unread = await run("verify");
    assertEquals(unread.code, 1);
    assertStringIncludes(
      unread.text,
      `session ${SESSION_B}: its record was missing or unreadable when it was removed (person by ann, entry 3)`,
    );
    await register.begin(SESSION_C);
    await register.remove(SESSION_C, { reason: "retention", heads: START_HEADS });
    const lines = (await run("verify")).text.split("\n").filter((line) => line.includes(SESSION_C));
    assertEquals(lines, []);

    const path = registerPath({ dir });
    const [, ...rest] = (await Deno.readTextFile(path)).split("\n");
    await Deno.writeTextFile(path, rest.join("\n"));
    const cut = await run("verify");
    assertEquals(cut.code, 1);
    assertStringIncludes(cut.text, "line 1 is not an entry that this machine signed there");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
