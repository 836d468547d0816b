/** A machine with ledgers, and a receiver, for tests of the fleet. */
import type { Event } from "../../lib/event/mod.ts";
import { enrol, type FleetServer, makeToken, serveFleet } from "../../lib/fleet/receive/mod.ts";
import { HttpTarget, Shipper, type ShipperOptions } from "../../lib/fleet/ship/mod.ts";
import { Ledger, type LedgerEntry } from "../../lib/ledger/mod.ts";
import { generateSigningKey, parseSigningKey, type SigningKey } from "../../lib/release/mod.ts";
import { formatPublicKey } from "../../lib/release/signing/mod.ts";
import { eventCommon, httpRequest } from "./event.ts";

export const SESSION_A = "0192f0c1-2222-7333-8444-5555aaaa0001";
export const SESSION_B = "0192f0c1-2222-7333-8444-5555aaaa0002";

export async function newKey(): Promise<SigningKey> {
  return await parseSigningKey(await generateSigningKey(), "a test");
}

/** A request of a session. */
export function webEvent(session_id: string, host = "api.example.com", path = "/v1/items"): Event {
  return {
    schema_version: 1,
    common: eventCommon("http.request", { session_id }),
    http: { request: httpRequest({ host, path }) },
  } as Event;
}

/** Appends entries to a ledger, with ends of the events, or their own one, and closes it. */
export async function record(
  path: string,
  sessionId: string,
  entries: (LedgerEntry & { end?: { error?: string; streamed_bytes?: number; isAnswered?: boolean } })[],
  status = 200,
): Promise<void> {
  await using ledger = await Ledger.open(path, { sessionId });
  for (const { end: { isAnswered = true, ...end } = {}, ...entry } of entries) {
    ledger.append(entry);
    ledger.end({
      event_id: entry.event.common.event_id,
      ...isAnswered && { response: { status, headers: {} } },
      ...end,
    });
  }
}

/** A folder for a store and a machine, with a receiver on loopback. */
export class TestFleet implements AsyncDisposable {
  private constructor(
    readonly dir: string,
    readonly store: string,
    readonly server: FleetServer,
  ) {}

  static async start(): Promise<TestFleet> {
    const dir = await Deno.makeTempDir();
    const store = `${dir}/store`;
    const server = await serveFleet({ dir: store, hostname: "127.0.0.1", port: 0 });
    return new TestFleet(dir, store, server);
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.addr.port}`;
  }

  async machine(name = "laptop-1", team?: string): Promise<SigningKey> {
    const key = await newKey();
    const { token } = await makeToken(this.store, { ...(team && { team }) });
    await enrol(this.store, { token, public_key: formatPublicKey(key.publicKey), name });
    return key;
  }

  shipper(key: SigningKey, options: Partial<ShipperOptions> = {}): Shipper {
    const target = new HttpTarget(this.url, key);
    return new Shipper({
      dir: `${this.dir}/cursor-${key.publicKey.id.slice(0, 8)}`,
      key,
      target,
      ...options,
    });
  }

  async [Symbol.asyncDispose]() {
    await this.server.shutdown();
    await Deno.remove(this.dir, { recursive: true });
  }
}
