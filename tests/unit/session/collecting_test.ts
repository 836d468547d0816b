import { assertEquals } from "@std/assert";
import { createClient } from "@libsql/client/sqlite3";
import { ensureSigningKey, openSigned } from "../../../lib/signing/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { Collecting } from "../../../lib/session/collecting.ts";
import { NO_KEYRING } from "../../helper/certificate.ts";
import { SESSION, writeEvents } from "../../helper/ledger.ts";

Deno.test("the end of a collected session leaves a signed head of its record elsewhere", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const { publicKey } = await ensureSigningKey(home, NO_KEYRING);
    const path = `${dir}/session.db`, url = `file:${dir}/server.db`;
    await writeEvents(path, 3);
    const collecting = await Collecting.start({ home, path, sessionId: SESSION }, { url });
    await collecting.end();
    const client = createClient({ url });
    const { rows: [{ envelope }] } = await client.execute("SELECT envelope FROM collected_heads");
    client.close();
    const { key, text } = await openSigned(new TextEncoder().encode(String(envelope)), [publicKey], "head");
    assertEquals([key.trusted, JSON.parse(text).events], [true, 3]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
