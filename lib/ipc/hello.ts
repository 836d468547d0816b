import { z } from "zod";
import { SbxError } from "../base/error/mod.ts";
import type { Channel } from "../base/wire/mod.ts";
import { Call, Hello, Input, IPC_VERSION, Reply } from "./schema.ts";

/** How long a peer may take to greet (contracts.md §7). */
const HELLO_DEADLINE_MS = 5000;

let hash: Promise<string> | undefined;

/**
 * SHA-256 of this wire's schemas: two builds whose messages differ refuse each other instead of misreading. Not BLAKE3,
 * because the runtime's own hash needs nothing loaded before a VM's process can answer.
 */
export function schemaHash(): Promise<string> {
  return hash ??= hashSchemas();
}

async function hashSchemas(): Promise<string> {
  const text = JSON.stringify([Call, Input, Reply].map((schema) => z.toJSONSchema(schema)));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toHex();
}

/**
 * Greets and checks the peer's greeting.
 *
 * @throws {SbxError} `process.hello_mismatch` when the peer is another version of sbx, `process.hello_timeout` when it says nothing
 */
export async function greet(channel: Channel): Promise<void> {
  const ours = { t: "Hello", version: IPC_VERSION, schema_hash: await schemaHash() };
  await channel.send(ours);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new SbxError("process.hello_timeout", "the other side of the socket did not greet")),
      HELLO_DEADLINE_MS,
    );
  });
  const theirs = await Promise.race([channel.next(), timeout]).finally(() => clearTimeout(timer));
  const hello = Hello.safeParse(theirs);
  if (hello.success && hello.data.version === IPC_VERSION && hello.data.schema_hash === ours.schema_hash) {
    return;
  }
  throw new SbxError(
    "process.hello_mismatch",
    "the service and this VM's process are of different versions of sbx",
    {
      hint: "stop the VM and start it again",
    },
  );
}
