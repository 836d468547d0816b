import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { Channel } from "../../base/wire/mod.ts";
import { Call, Hello, Input, IPC_VERSION, REPLIES, Reply } from "./schema.ts";

/** Longest wait for a peer's greeting, in `ms` (docs/design/contracts/07-guest-wire.md §7). */
const HELLO_DEADLINE_MS = timeLimit(5000);

let hash: Promise<string> | undefined;

/**
 * SHA-256 of this wire's schemas: two builds whose messages differ refuse each other instead of misreading. Not BLAKE3,
 * because the runtime's own hash loads nothing before a VM's process can answer.
 */
export function schemaHash(): Promise<string> {
  return hash ??= hashSchemas();
}

async function hashSchemas(): Promise<string> {
  const schemas = [Call, Input, Reply].map((schema) => z.toJSONSchema(schema));
  const text = JSON.stringify([...schemas, REPLIES]);
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toHex();
}

/**
 * Sends a greeting and checks the peer's.
 *
 * @throws {SbxError} `process.hello_mismatch`: the peer is another version of sbx; `process.hello_timeout`: no greeting
 */
export async function greet(channel: Channel): Promise<void> {
  const hello = { t: "Hello", version: IPC_VERSION, schema_hash: await schemaHash() };
  await channel.send(hello);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new SbxError("process.hello_timeout", "the other side of the socket did not greet")),
      HELLO_DEADLINE_MS,
    );
  });
  const frame = await Promise.race([channel.next(), timeout]).finally(() => clearTimeout(timer));
  const { data: peer } = Hello.safeParse(frame);
  if (peer?.version === IPC_VERSION && peer.schema_hash === hello.schema_hash) return;
  throw new SbxError(
    "process.hello_mismatch",
    "the service and this VM's process are of different versions of sbx",
    { hint: "stop the VM and start it again" },
  );
}
