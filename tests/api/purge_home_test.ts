/** `sbx purge --home`: asks, lists, refuses under a hold, and leaves nothing. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { Ledger } from "../../lib/ledger/mod.ts";
import { SessionIndex } from "../../lib/ledger/read/mod.ts";
import { execEvent } from "../helper/ledger.ts";
import { Sbx } from "../helper/sbx.ts";

const ID = "0192f0c1-2222-7333-8444-5555aaaa0001";

Deno.test("a home goes with its service and its login file, unless corp holds a record", async () => {
  const sbx = await Sbx.make();
  const config = await Deno.makeTempDir();
  sbx.env.XDG_CONFIG_HOME = config;
  const corp = join(config, "corp.toml");
  sbx.env.SBX_CORP_CONFIG = corp;
  try {
    await Deno.writeTextFile(corp, `[corp.records]\nhold = ["session:${ID}"]\n`);
    const ledger = join(sbx.home, "ledgers", ID, "session.db");
    await Deno.mkdir(dirname(ledger), { recursive: true });
    {
      await using writer = await Ledger.open(ledger, { sessionId: ID });
      writer.append({ event: { ...execEvent(), common: { ...execEvent().common, session_id: ID } } });
    }
    const index = await SessionIndex.open(join(sbx.home, "main.db"));
    const at = "2026-01-01T00:00:00.000Z";
    await index.put({
      id: ID,
      name: "demo",
      profile_id: "code",
      profile_revision: "1",
      created_at: at,
      ended_at: at,
    });
    index.close();
    await sbx.ok("start");
    await sbx.ok("settings", "set", "app.start_service_at_login", "true");

    const unsure = await sbx.cli("purge", "--home");
    assertEquals(unsure.code === 0, false);
    const held = await sbx.cli("purge", "--home", "--yes");
    assertEquals(held.code, 1);
    assertStringIncludes(held.stderr, `corp holds the record of session ${ID}`);
    assertEquals((await Deno.stat(ledger)).isFile, true);

    await Deno.writeTextFile(corp, "");
    await sbx.ok("stop");
    const asked = await sbx.cli("purge", "--home");
    assertStringIncludes(asked.stderr, "confirm with sbx purge --home --yes");
    assertStringIncludes(asked.stdout, `demo (${ID})`);
    assertEquals((await Deno.stat(sbx.home)).isDirectory, true);

    const gone = await sbx.ok("purge", "--home", "--yes");
    assertStringIncludes(gone, `removed ${sbx.home}`);
    assertEquals(await Deno.stat(sbx.home).then(() => true, () => false), false);
    const left = await filesBelow(config);
    assertEquals(left, [corp]);
  } finally {
    // The harness removes a home itself.
    await Deno.mkdir(sbx.home, { recursive: true });
    await sbx.dispose();
    await Deno.remove(config, { recursive: true });
  }
});

Deno.test("a folder that is no home of sbx, or holds the person's own, stays", async () => {
  const sbx = await Sbx.make();
  try {
    const precious = join(sbx.home, "thesis.txt");
    await Deno.writeTextFile(precious, "chapter 1\n");
    const other = await sbx.cli("purge", "--home", "--yes");
    assertEquals(other.code, 1);
    assertStringIncludes(other.stderr, `there is no home at ${sbx.home}`);
    // Nor does it become one.
    assertEquals(await filesBelow(sbx.home), [precious]);

    await Deno.writeTextFile(join(sbx.home, "settings.toml"), "");
    sbx.env.HOME = sbx.home;
    const own = await sbx.cli("purge", "--home", "--yes");
    assertEquals(own.code, 1);
    assertStringIncludes(own.stderr, "nothing was removed");
    assertEquals(await Deno.readTextFile(precious), "chapter 1\n");
  } finally {
    await sbx.dispose();
  }
});

async function filesBelow(dir: string): Promise<string[]> {
  const files: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(dir)) {
    files.push(...isDirectory ? await filesBelow(join(dir, name)) : [join(dir, name)]);
  }
  return files;
}
