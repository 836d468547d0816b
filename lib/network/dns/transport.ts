/** Sends one question to one resolver, over UDP or TCP. */
import type { Socket } from "node:dgram";
import { closeQuietly, writeAll } from "../../base/wire/mod.ts";
import { PacketError } from "./guard.ts";
import type { DnsQuestion, ResolverAnswer } from "./packet.ts";
import { readAnswer } from "./read.ts";
import type { Resolver } from "./resolver.ts";
import { writeQuery } from "./write.ts";

/** A resolver did not answer in time. */
export class ResolverTimeout extends Error {
  override name = "ResolverTimeout";
}

/**
 * Queries over UDP, from a port of its own and with a random id: a forged answer has to guess both. Packets that do not
 * match are ignored.
 */
export async function queryUdp(
  { hostname, port }: Resolver,
  question: DnsQuestion,
  timeoutMs: number,
): Promise<ResolverAnswer> {
  // Loaded with the first uncached question, so that a session's start does not wait for it.
  const { createSocket } = await import("node:dgram");
  const socket: Socket = createSocket(hostname.includes(":") ? "udp6" : "udp4");
  const id = randomId();
  const { promise, resolve, reject } = Promise.withResolvers<ResolverAnswer>();
  const timer = setTimeout(() => reject(new ResolverTimeout()), timeoutMs);
  try {
    socket.on("error", reject);
    socket.on("message", (message: Uint8Array) => {
      try {
        const answer = readAnswer(message, id, question);
        if (answer) resolve(answer);
      } catch (error) {
        reject(error);
      }
    });
    // On a connected socket, the kernel drops packets of other senders and reports a closed port.
    socket.connect(port, hostname, () => socket.send(writeQuery(id, question)));
    return await promise;
  } finally {
    clearTimeout(timer);
    closeQuietly(socket);
  }
}

/** Queries over TCP, for answers up to 64 KB; a length precedes each message (RFC 1035 §4.2.2). */
export async function queryTcp(
  { hostname, port }: Resolver,
  question: DnsQuestion,
  timeoutMs: number,
): Promise<ResolverAnswer> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(new ResolverTimeout()), timeoutMs);
  let conn: Deno.TcpConn | undefined;
  timeout.signal.addEventListener("abort", () => closeQuietly(conn));
  try {
    conn = await Deno.connect({ hostname, port, signal: timeout.signal });
    const id = randomId();
    const query = writeQuery(id, question);
    const message = new Uint8Array(2 + query.length);
    new DataView(message.buffer).setUint16(0, query.length);
    message.set(query, 2);
    await writeAll(conn, message);
    const length = await readExactly(conn, 2);
    const answer = readAnswer(await readExactly(conn, length[0] << 8 | length[1]), id, question);
    if (!answer) throw new PacketError("malformed", "an answer to another question");
    return answer;
  } catch (error) {
    throw timeout.signal.aborted ? timeout.signal.reason : error;
  } finally {
    clearTimeout(timer);
    closeQuietly(conn);
  }
}

async function readExactly(conn: Deno.Conn, count: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count;) {
    const read = await conn.read(bytes.subarray(at));
    if (read === null) throw new PacketError("malformed", "a truncated answer");
    at += read;
  }
  return bytes;
}

function randomId(): number {
  return crypto.getRandomValues(new Uint16Array(1))[0];
}
