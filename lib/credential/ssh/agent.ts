/**
 * Signatures of an SSH agent of the host (draft-miller-ssh-agent): nothing else is asked of it, and no answer is believed that
 * does not prove itself.
 */
import { SbxError } from "../../base/error/mod.ts";
import { closeQuietly, writeAll } from "../../base/wire/mod.ts";
import { checkSignature, fingerprintOf, firstString, parsePublicKey, readStrings, strings } from "./key.ts";
import { joinBytes } from "../../base/bytes/mod.ts";

/** Longest wait for an answer, in `ms`: a person may have to confirm, or touch a device. */
const ANSWER_MS = 60_000;
/** Longest answer, in `bytes`. */
const ANSWER_MAX = 256 * 1024;
/** Most keys that are read of an agent. */
const KEYS_MAX = 256;

const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;
/** Flags of a sign request, of RSA keys. */
const FLAGS: Readonly<Record<string, number>> = { "rsa-sha2-256": 2, "rsa-sha2-512": 4 };

/** A key that an agent holds. */
export interface AgentKey {
  /** as in `authorized_keys`, without its comment */
  publicKey: string;
  comment: string;
}

/**
 * Asks an agent for its keys.
 *
 * @returns the ones of types that sbx signs with
 * @throws {SbxError} `ssh.agent`
 */
export async function agentKeys(socket: string): Promise<AgentKey[]> {
  const answer = await ask(socket, REQUEST_IDENTITIES, new Uint8Array(), IDENTITIES_ANSWER);
  try {
    const fields = readStrings(answer.subarray(4));
    if (fields.length > 2 * KEYS_MAX || fields.length % 2 !== 0) throw new Error("a list of another form");
    return fields.flatMap((blob, at) => {
      if (at % 2 !== 0) return [];
      // A certificate has fields of other forms behind its type.
      const type = firstString(blob);
      const publicKey = `${new TextDecoder("latin1").decode(type)} ${blob.toBase64()}`;
      const comment = new TextDecoder().decode(fields[at + 1]).replace(/\p{Cc}/gu, "�");
      return parsePublicKey(publicKey) ? [{ publicKey, comment }] : [];
    });
  } catch (cause) {
    throw agentError(socket, "gave a list of keys that cannot be read", cause);
  }
}

/**
 * Lets an agent sign with one key.
 *
 * @returns the signature, as `signWith` of key.ts makes it
 * @throws {SbxError} `ssh.agent`: it is not there, refuses, does not answer, or signs something else
 */
export async function signWithAgent(
  socket: string,
  publicKey: string,
  data: Uint8Array,
  algorithm: string,
  waitMs = ANSWER_MS,
): Promise<Uint8Array> {
  const { blob } = parsePublicKey(publicKey)!;
  const flags = new Uint8Array(4);
  new DataView(flags.buffer).setUint32(0, FLAGS[algorithm] ?? 0);
  const answer = await ask(
    socket,
    SIGN_REQUEST,
    joinBytes([strings(blob, data), flags]),
    SIGN_RESPONSE,
    `does not sign with ${fingerprintOf(blob)}: it does not hold the key, or its user refused`,
    waitMs,
  );
  let signature: Uint8Array | undefined;
  try {
    const [first, ...more] = readStrings(answer);
    signature = more.length === 0 ? checkSignature(blob, data, algorithm, first) : undefined;
  } catch {
    // the error below
  }
  if (signature) return signature;
  throw agentError(socket, `gave a signature that is not of ${fingerprintOf(blob)}, and it was not sent`);
}

/** Asks one question on a connection of its own. @param refusal meaning of its refusal */
async function ask(
  socket: string,
  type: number,
  content: Uint8Array,
  expected: number,
  refusal = "refuses",
  waitMs = ANSWER_MS,
): Promise<Uint8Array> {
  let conn: Deno.UnixConn | undefined;
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    closeQuietly(conn);
  }, waitMs);
  try {
    requireOwn(socket);
    conn = await Deno.connect({ transport: "unix", path: socket });
    const head = new Uint8Array(5);
    new DataView(head.buffer).setUint32(0, 1 + content.length);
    head[4] = type;
    await writeAll(conn, joinBytes([head, content]));
    const start = await readExactly(conn, 4);
    const length = new DataView(start.buffer).getUint32(0);
    if (length < 1 || length > ANSWER_MAX) throw agentError(socket, "gave an answer that cannot be read");
    const answer = await readExactly(conn, length);
    if (answer[0] === expected) return answer.subarray(1);
    throw agentError(socket, refusal);
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    if (isLate) throw agentError(socket, `did not answer within ${waitMs / 1000} s`, cause);
    throw agentError(socket, conn ? "ended the connection without an answer" : "cannot be reached", cause);
  } finally {
    clearTimeout(timer);
    closeQuietly(conn);
  }
}

/** Another user's socket is no agent of this person. */
function requireOwn(socket: string): void {
  const { uid, isSocket } = Deno.statSync(socket);
  if (isSocket === false) throw agentError(socket, "is no socket");
  if (uid !== null && uid !== Deno.uid()) throw agentError(socket, "belongs to another user");
}

async function readExactly(conn: Deno.Conn, length: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length;) {
    const count = await conn.read(bytes.subarray(at));
    if (count === null) throw new Error("half an answer");
    at += count;
  }
  return bytes;
}

function agentError(socket: string, problem: string, cause?: unknown): SbxError {
  return new SbxError("ssh.agent", `the SSH agent at ${socket} ${problem}`, {
    cause,
    hint: "ssh-add -l shows its keys; sbx credentials add ssh --agent takes the agent of SSH_AUTH_SOCK",
  });
}
