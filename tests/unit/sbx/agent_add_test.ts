/** The text about a stranger's agent that a person confirms. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { changedLines, describe } from "../../../cmd/sbx/start/agent_add.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { readAgentFile } from "../../../lib/config/agent/mod.ts";
import { BUILTIN_PROFILES } from "../../../lib/config/profile/mod.ts";

const read = (name: string) => {
  const text = BUILTIN_PROFILES.get("pi")!.replace('id = "pi"', 'id = "ours"')
    .replace(/^name = .*$/m, () => `name = ${JSON.stringify(name)}`);
  return readAgentFile(new TextEncoder().encode(text), { source: "ours.toml", trusted: [], taken: [] });
};
const FORGED = "a)\nsigned by   acme\nits hosts   none";

Deno.test("a name with line breaks is refused, and forges no row of the text that is confirmed", async () => {
  await assertRejects(() => read(FORGED), SbxError, "must be one line");
  const agent = await read("a");
  const rows = describe({ ...agent, profile: { ...agent.profile, name: FORGED } }, "ours.toml").split("\n");
  assertEquals(rows.filter((row) => row.startsWith("signed by")), ["signed by   NO ONE"]);
  assert(rows[0].includes("a) signed by   acme its hosts   none), from ours.toml"), rows[0]);
});

Deno.test("files of lines alone are shown as they are, and not compared", () => {
  const [before, after] = ["a\n", "b\n"].map((line) => line.repeat(100_000));
  const lines = changedLines(before, after);
  assertEquals([lines.length, lines[0], lines.at(-1)], [200_000, "- a", "+ b"]);
  assertEquals(changedLines("a\nb\nc", "a\nx\nc"), ["- b", "+ x"]);
});
