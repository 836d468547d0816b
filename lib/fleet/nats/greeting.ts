import { z } from "zod";
import type { NatsAddress } from "./address.ts";

/** Longest greeting that is read, in bytes. */
const GREETING_MAX = 64 * 1024;

/** What the library reads of a greeting. */
const Greeting = z.object({
  version: z.string().regex(/\d+\.\d+\.\d+/),
  max_payload: z.number().positive(),
  headers: z.boolean().optional(),
  tls_required: z.boolean().optional(),
  connect_urls: z.array(z.string()).nullish(),
  nonce: z.string().optional(),
});

/**
 * Reads the line that a NATS server sends to each connection, by a connection of its own: on one that it does not understand
 * the library prints a trace, and waits until its time is over.
 *
 * @param ms longest wait
 */
export async function checkGreeting({ hostname, port }: NatsAddress, ms: number): Promise<void> {
  const connection = await Deno.connect({ hostname: hostname.replace(/^\[|\]$/g, ""), port });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    connection.close();
  }, ms);
  try {
    const line = await readLine(connection);
    const [, json] = /^INFO\s+(\{.*\})\s*$/i.exec(line) ?? [];
    Greeting.parse(JSON.parse(json));
  } catch (cause) {
    throw new Error(isLate ? "timeout" : "its greeting is not that of a NATS server", { cause });
  } finally {
    clearTimeout(timer);
    if (!isLate) connection.close();
  }
}

async function readLine(connection: Deno.Conn): Promise<string> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(4096);
  let text = "";
  while (!text.includes("\n") && text.length < GREETING_MAX) {
    const count = await connection.read(buffer);
    if (count === null) break;
    text += decoder.decode(buffer.subarray(0, count), { stream: true });
  }
  return text.split("\r\n")[0];
}
