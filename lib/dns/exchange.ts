/** One question to one resolver and its answer. */
import type { Socket } from "node:dgram";
import { writeAll } from "../base/wire/write.ts";
import { PacketError } from "./guard.ts";
import type { Question, UpstreamAnswer } from "./packet.ts";
import { readAnswer } from "./read.ts";
import type { Resolver } from "./resolver.ts";
import { writeQuery } from "./write.ts";

/** Nothing came in time. */
export class NoAnswer extends Error {
  override name = "NoAnswer";
}

/**
 * Over UDP, from a port of its own and with a random id: who wants to answer in the resolver's place has to guess both.
 * What does not fit is not an answer, and the waiting goes on.
 */
export async function exchangeUdp(
  { hostname, port }: Resolver,
  question: Question,
  timeoutMs: number,
): Promise<UpstreamAnswer> {
  // Loaded with the first question that is not known: most of a session's start is not waiting for it.
  const { createSocket } = await import("node:dgram");
  const socket: Socket = createSocket(hostname.includes(":") ? "udp6" : "udp4");
  const id = randomId();
  const { promise, resolve, reject } = Promise.withResolvers<UpstreamAnswer>();
  const timer = setTimeout(() => reject(new NoAnswer()), timeoutMs);
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
    // Connected, the kernel lets through what comes from there only, and tells when nobody listens there.
    socket.connect(port, hostname, () => socket.send(writeQuery(id, question)));
    return await promise;
  } finally {
    clearTimeout(timer);
    close(socket);
  }
}

/** Over TCP, where an answer may have 64 KB; each message has its length before it (RFC 1035 §4.2.2). */
export async function exchangeTcp(
  { hostname, port }: Resolver,
  question: Question,
  timeoutMs: number,
): Promise<UpstreamAnswer> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new NoAnswer()), timeoutMs);
  let conn: Deno.TcpConn | undefined;
  late.signal.addEventListener("abort", () => close(conn));
  try {
    conn = await Deno.connect({ hostname, port, signal: late.signal });
    const id = randomId();
    const query = writeQuery(id, question);
    const message = new Uint8Array(2 + query.length);
    new DataView(message.buffer).setUint16(0, query.length);
    message.set(query, 2);
    await writeAll(conn, message);
    const length = await readExactly(conn, 2);
    const answer = readAnswer(await readExactly(conn, length[0] << 8 | length[1]), id, question);
    if (!answer) throw new PacketError("malformed", "it answers something else");
    return answer;
  } catch (error) {
    throw late.signal.aborted ? late.signal.reason : error;
  } finally {
    clearTimeout(timer);
    close(conn);
  }
}

async function readExactly(conn: Deno.Conn, count: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count;) {
    const read = await conn.read(bytes.subarray(at));
    if (read === null) throw new PacketError("malformed", "it is cut off");
    at += read;
  }
  return bytes;
}

function randomId(): number {
  return crypto.getRandomValues(new Uint16Array(1))[0];
}

function close(what: { close(): unknown } | undefined): void {
  try {
    what?.close();
  } catch {
    // closed already
  }
}
