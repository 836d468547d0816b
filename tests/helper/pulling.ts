/** A receiver that reads from a stream or tables, and what it has. */
import { assertEquals } from "@std/assert";
import { openSource } from "../../lib/fleet/pull/mod.ts";
import { checkFleet, enrol, makeToken, readEnd, Receiver } from "../../lib/fleet/receive/mod.ts";
import { sessionFolder } from "../../lib/fleet/store.ts";
import { readHeads } from "../../lib/ledger/read/mod.ts";
import type { SigningKey } from "../../lib/release/mod.ts";
import { formatPublicKey } from "../../lib/release/signing/mod.ts";
import { newKey, webEvent } from "./fleet.ts";

export const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Entries of a ledger. @param random texts that do not compress */
export function entries(session: string, count: number, random = false) {
  return Array.from({ length: count }, (_, at) => ({
    event: webEvent(
      session,
      `host${at % 5}.example.com`,
      random ? `/${crypto.randomUUID()}${crypto.randomUUID()}` : "/",
    ),
    decision: { decision: "allow", rule: { id: "rule-1" } },
  }));
}

/** A machine that a store knows. */
export async function enrolled(store: string, name: string, team?: string): Promise<SigningKey> {
  const key = await newKey();
  const { token } = await makeToken(store, { ...(team && { team }) });
  await enrol(store, { token, public_key: formatPublicKey(key.publicKey), name });
  return key;
}

/** A receiver in this process, until it is disposed of. */
export function pulling(store: string, url: string, authorize?: (url: URL) => Promise<string>) {
  const stop = new AbortController();
  const receiver = new Receiver(store);
  const done = openSource(url, authorize)({ dir: store, receiver, signal: stop.signal });
  done.catch(() => {});
  return {
    done,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done.catch(() => {});
    },
  };
}

/** Waits until a store has all of a ledger. */
export async function arrived(store: string, key: SigningKey, session: string, path: string): Promise<void> {
  const heads = await readHeads(path);
  while (true) {
    const end = await readEnd(sessionFolder(store, key.publicKey.id, session));
    if (end.events === heads.events && end.outcomes === heads.outcomes && end.journal === heads.journal) {
      return assertEquals(end, heads);
    }
    await pause(50);
  }
}

/** What `fleet verify` tells, but for machines that never reported. */
export async function problemsOf(store: string): Promise<string[]> {
  const { machines } = await checkFleet(store);
  return machines.flatMap(({ problems }) => problems.filter((line) => !line.startsWith("silent")));
}
