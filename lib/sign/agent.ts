/** A person's ssh-agent, asked for one signature (draft-ietf-sshm-ssh-agent); it may hang or lie. */
import { ifFound, SbxError } from "../base/error/mod.ts";
import { writeAll } from "../base/wire/mod.ts";
import type { PublicKey } from "./key.ts";
import { ANSWER_MAX } from "./limit.ts";
import { joinBytes } from "../base/bytes/mod.ts";
import { Reader, string, uint32 } from "./wire.ts";

const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;
/** SSH_AGENT_RSA_SHA2_512 */
const RSA_SHA2_512 = 4;

/**
 * Signs with a key of an agent.
 *
 * @param socket path of its socket
 * @param signal ends the wait
 * @returns the signature as SSH has it, not verified
 * @throws {SbxError} `sign.failed`
 */
export async function signWithAgent(
  socket: string,
  key: PublicKey,
  bytes: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  // Where the agent has ended, another user of the host may have taken its path.
  const place = await ifFound(Deno.stat(socket));
  if (place && place.uid !== null && place.uid !== Deno.uid()) {
    throw new SbxError("sign.failed", `the socket ${socket} belongs to another user`, {
      hint: "start ssh-agent, and add the key again: sbx credentials add signing --agent --public FILE.pub",
    });
  }
  const conn = await Deno.connect({ transport: "unix", path: socket }).catch(() => {
    throw new SbxError("sign.failed", `no ssh-agent answers at ${socket}`, {
      hint:
        "start it and add the key again: ssh-add FILE; sbx credentials add signing --agent --public FILE.pub",
    });
  });
  const close = () => conn.close();
  signal.addEventListener("abort", close);
  try {
    signal.throwIfAborted();
    const flags = key.type === "ssh-rsa" ? RSA_SHA2_512 : 0;
    await writeAll(
      conn,
      string(joinBytes([
        Uint8Array.of(SIGN_REQUEST),
        string(key.blob),
        string(bytes),
        uint32(flags),
      ])),
    );
    const answer = await readAnswer(conn);
    if (answer[0] === SIGN_RESPONSE) {
      const reader = new Reader(answer.subarray(1));
      return reader.string();
    }
  } catch (cause) {
    const problem = signal.aborted ? "did not answer in time" : "broke the connection off";
    throw new SbxError("sign.failed", `the ssh-agent ${problem}`, {
      cause,
      hint: "unlock it or touch its token, and commit again",
    });
  } finally {
    signal.removeEventListener("abort", close);
    if (!signal.aborted) conn.close();
  }
  throw new SbxError("sign.failed", "the ssh-agent does not sign with this key", {
    hint: "load it on the host: ssh-add FILE; ssh-add -L lists the keys that it has",
  });
}

async function readAnswer(conn: Deno.Conn): Promise<Uint8Array> {
  const head = new Uint8Array(4);
  await readFull(conn, head);
  const length = new DataView(head.buffer).getUint32(0);
  if (length < 1 || length > ANSWER_MAX) throw new RangeError("an answer of no usable length");
  const body = new Uint8Array(length);
  await readFull(conn, body);
  return body;
}

async function readFull(conn: Deno.Conn, into: Uint8Array): Promise<void> {
  for (let at = 0; at < into.length;) {
    const read = await conn.read(into.subarray(at));
    if (read === null) throw new RangeError("the agent ended the connection");
    at += read;
  }
}
