/** Signed heads of a running session's record, as a collecting server gets them. */
import { fileURLToPath } from "node:url";
import { assert, assertEquals } from "@std/assert";
import { Database } from "../../../lib/ledger/database.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { ensureSigningKey, openSigned } from "../../../lib/release/signing/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import type { PublicKey } from "../../../lib/release/mod.ts";
import { Collecting, HEAD_MS } from "../../../lib/session/collecting.ts";
import { NO_KEYRING } from "../../helper/certificate.ts";
import { requestEvent, SESSION, writeEvents } from "../../helper/ledger.ts";

interface Given {
  home: Home;
  path: string;
  dir: string;
  publicKey: PublicKey;
}

async function withRecord(run: (given: Given) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const { publicKey } = await ensureSigningKey(home, NO_KEYRING);
    const path = `${dir}/session.db`;
    await writeEvents(path, 3);
    await run({ home, path, dir, publicKey });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Events that each head on the server vouches for, all of them signed by the key. */
async function headsAt(url: string, publicKey: PublicKey): Promise<number[]> {
  const client = new Database(fileURLToPath(url));
  try {
    const { rows } = await client.execute("SELECT envelope FROM collected_heads ORDER BY number");
    return await Promise.all(rows.map(async ({ envelope }) => {
      const { key, text } = await openSigned(
        new TextEncoder().encode(String(envelope)),
        [publicKey],
        "head",
      );
      assert(key.trusted);
      return JSON.parse(text).events;
    }));
  } catch {
    return [];
  } finally {
    client.close();
  }
}

Deno.test("the end of a collected session leaves a signed head of its record elsewhere", () =>
  withRecord(async ({ home, path, dir, publicKey }) => {
    const url = `file:${dir}/server.db`;
    const collecting = await Collecting.start({ home, path, sessionId: SESSION }, { url });
    await collecting.end();
    assertEquals(await headsAt(url, publicKey), [3]);
  }));

Deno.test("a running session sends its head every minute when it has grown, also after an outage", () =>
  withRecord(async ({ home, path, dir, publicKey }) => {
    assertEquals(HEAD_MS, 60_000);
    const url = `file:${dir}/away/server.db`;
    const heads = () => headsAt(url, publicKey);
    // Its timer keeps no process alive.
    const alive = setInterval(() => {}, 1000);
    const until = async (count: number) => {
      while ((await heads()).length < count) await new Promise((resolve) => setTimeout(resolve, 10));
    };
    const collecting = await Collecting.start({ home, path, sessionId: SESSION }, { url }, 20);
    try {
      await new Promise((resolve) => setTimeout(resolve, 100));
      await Deno.mkdir(`${dir}/away`);
      await until(1);
      await new Promise((resolve) => setTimeout(resolve, 200));
      assertEquals(await heads(), [3], "a record that has not grown sends no head again");
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      ledger.append({ event: requestEvent("dns.query") });
      await ledger.flush();
      await until(2);
      assertEquals(await heads(), [3, 4]);
    } finally {
      await collecting.end();
      clearInterval(alive);
    }
  }));
