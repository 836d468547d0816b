/**
 * Keys and signatures of an SSH agent of the host (draft-ietf-sshm-ssh-agent): nothing else is asked of it,
 * and no answer is believed that does not prove itself. It may hang, lie, or be another program at its path.
 */
import { SbxError } from "../error/mod.ts";
import { joinBytes } from "../bytes/mod.ts";
import { closeQuietly, readExactly, writeAll } from "../wire/mod.ts";
import { checkSignature, parsePublicKey, type PublicKey } from "./public.ts";
import { Reader, string, uint32 } from "./wire.ts";

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
  key: PublicKey;
  /** plain text, without control characters */
  comment: string;
}

/**
 * Asks an agent for its keys.
 *
 * @returns the ones of types that sbx signs with; no certificates
 * @throws {SbxError} `ssh.agent`
 */
export async function agentKeys(socket: string): Promise<AgentKey[]> {
  const answer = await ask(socket, REQUEST_IDENTITIES, new Uint8Array(), IDENTITIES_ANSWER);
  try {
    const reader = new Reader(answer);
    const count = reader.uint32();
    if (count > KEYS_MAX) throw new RangeError("too many keys");
    const all = Array.from({ length: count }, () => [reader.string(), reader.string()]);
    reader.requireEnd();
    return all.flatMap(([blob, words]) => {
      const type = new TextDecoder("latin1").decode(new Reader(blob).string());
      const key = parsePublicKey(`${type} ${blob.toBase64()}`);
      const comment = new TextDecoder().decode(words).replace(/\p{Cc}/gu, "�");
      return key ? [{ key, comment }] : [];
    });
  } catch (cause) {
    throw agentError(socket, "gave a list of keys that cannot be read", cause);
  }
}

/** How an agent signs. */
export interface AgentSignature {
  /** such as `rsa-sha2-512`; of another key than RSA its type */
  algorithm: string;
  /** longest wait in `ms` */
  waitMs?: number;
  /** ends the wait */
  signal?: AbortSignal;
}

/**
 * Lets an agent sign with one key.
 *
 * @returns the plain signature, verified
 * @throws {SbxError} `ssh.agent`: it is not there, refuses, does not answer, or signs something else
 */
export async function signWithAgent(
  socket: string,
  key: PublicKey,
  data: Uint8Array,
  { algorithm, waitMs, signal }: AgentSignature,
): Promise<Uint8Array> {
  const answer = await ask(
    socket,
    SIGN_REQUEST,
    joinBytes([string(key.blob), string(data), uint32(FLAGS[algorithm] ?? 0)]),
    SIGN_RESPONSE,
    {
      refusal: `does not sign with ${key.fingerprint}: it does not hold the key, or its user refused`,
      waitMs,
      signal,
    },
  );
  const signature = onlyField(answer);
  const plain = signature && checkSignature(key, data, algorithm, signature);
  if (plain) return plain;
  throw agentError(
    socket,
    `gave a signature that is not of ${key.fingerprint} and this data, and it was not used`,
  );
}

function onlyField(answer: Uint8Array): Uint8Array | undefined {
  try {
    const reader = new Reader(answer);
    const field = reader.string();
    reader.requireEnd();
    return field;
  } catch {
    return undefined;
  }
}

/** Asks one question on a connection of its own. */
async function ask(
  socket: string,
  type: number,
  content: Uint8Array,
  expected: number,
  { refusal = "refuses", waitMs = ANSWER_MS, signal }: {
    /** meaning of its refusal */
    refusal?: string;
    waitMs?: number;
    signal?: AbortSignal;
  } = {},
): Promise<Uint8Array> {
  const late = AbortSignal.timeout(waitMs);
  const ended = signal ? AbortSignal.any([late, signal]) : late;
  let conn: Deno.UnixConn | undefined;
  const close = () => closeQuietly(conn);
  ended.addEventListener("abort", close);
  try {
    requireOwn(socket);
    conn = await Deno.connect({ transport: "unix", path: socket });
    ended.throwIfAborted();
    await writeAll(conn, string(joinBytes([Uint8Array.of(type), content])));
    const answer = await readAnswer(conn, socket);
    if (answer[0] === expected) return answer.subarray(1);
    throw agentError(socket, refusal);
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    if (ended.aborted) throw agentError(socket, "did not answer in time", cause);
    throw agentError(socket, conn ? "ended the connection without an answer" : "cannot be reached", cause);
  } finally {
    ended.removeEventListener("abort", close);
    closeQuietly(conn);
  }
}

/**
 * Another user's socket is no agent of this person: where the agent has ended,
 * another user may have taken its path.
 */
function requireOwn(socket: string): void {
  const { uid, isSocket } = Deno.statSync(socket);
  if (isSocket === false) throw agentError(socket, "is not a socket");
  if (uid !== null && uid !== Deno.uid()) throw agentError(socket, "belongs to another user");
}

async function readAnswer(conn: Deno.Conn, socket: string): Promise<Uint8Array> {
  const head = await readExactly(conn, 4);
  const length = head && new Reader(head).uint32();
  if (length !== undefined && (length < 1 || length > ANSWER_MAX)) {
    throw agentError(socket, "gave an answer that cannot be read");
  }
  const answer = length !== undefined && await readExactly(conn, length);
  if (!answer) throw new Error("half an answer");
  return answer;
}

function agentError(socket: string, problem: string, cause?: unknown): SbxError {
  return new SbxError("ssh.agent", `the SSH agent at ${socket} ${problem}`, {
    cause,
    hint:
      "ssh-add -l shows its keys, and ssh-add FILE loads one; unlock it, or touch its token, and try again",
  });
}
