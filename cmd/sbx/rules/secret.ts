/** Secrets for commands: typed by a person, or named by a reference. */
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import type { Arguments } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";

/** Most `bytes` of a secret. */
const SECRET_BYTES_MAX = 64 * 1024;
const [ENTER, NEWLINE, CTRL_C, CTRL_D, BACKSPACE, DELETE] = [0x0d, 0x0a, 0x03, 0x04, 0x08, 0x7f];

/**
 * Reads a secret from standard input, or from a terminal without echo; never from an argument, which every
 * program of the machine can read.
 *
 * @param what name of the secret, for the prompt and errors
 * @param hint for an empty one
 * @throws {SbxError} `credential.invalid`: empty or too long, or cancelled with ctrl-C
 */
export async function readSecret(
  what: string,
  hint = "type it at the prompt, or redirect a file that has it: < FILE",
): Promise<string> {
  const secret = (Deno.stdin.isTerminal() ? await readTyped(`${what}: `) : await readPiped()).trim();
  if (secret !== "") return secret;
  throw new SbxError("credential.invalid", `the ${what} is empty`, { hint });
}

/**
 * Reads the keys of AWS: part by part from a terminal, or from standard input as lines, as the variables or
 * the section of a file that AWS clients read, or as JSON of a program of theirs.
 *
 * @returns `ID:SECRET` or `ID:SECRET:TOKEN`
 */
export async function readAwsKeys(): Promise<string> {
  const keys = Deno.stdin.isTerminal()
    ? {
      id: (await readTyped("AWS access key id: ")).trim(),
      secret: (await readTyped("AWS secret access key: ")).trim(),
      token: (await readTyped("AWS session token, if any: ")).trim(),
    }
    : awsKeysIn(await readPiped());
  const { joinAwsKeys } = await import("../../../lib/credential/mod.ts");
  const text = keys && joinAwsKeys(keys);
  if (text !== undefined) return text;
  throw new SbxError("credential.invalid", "that is not an access key id with its secret access key", {
    hint: "redirect two or three lines: the id, the secret, the session token if there is one",
  });
}

/** Finds keys in a text of one, two or three values, each a line, or with their names. */
function awsKeysIn(text: string): { id: string; secret: string; token?: string } | undefined {
  const named = (name: string) =>
    new RegExp(`${name}["']?[ \\t]*[=:][ \\t]*["']?([^\\s"',]+)`, "i").exec(text)?.[1];
  const [id, secret] = [named("access_?key_?id"), named("secret_?access_?key")];
  if (id !== undefined && secret !== undefined) return { id, secret, token: named("session_?token") };
  const [first, second, third, ...more] = text.split(/\s+/).filter((word) => word !== "");
  return second === undefined || more.length > 0 ? undefined : { id: first, secret: second, token: third };
}

/**
 * Reads a private key, and asks for the passphrase of one that has it, on a terminal.
 *
 * @param name of the key, for the prompt
 */
export async function withPassphrase<T>(name: string, read: (passphrase?: string) => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const isLocked = error instanceof SbxError && error.code.endsWith(".locked");
    if (!isLocked || !Deno.stdin.isTerminal()) throw error;
    return await read(await readTyped(`passphrase of ${name}: `));
  }
}

async function readPiped(): Promise<string> {
  const bytes: number[] = [];
  for await (const chunk of Deno.stdin.readable) {
    bytes.push(...chunk);
    if (bytes.length > SECRET_BYTES_MAX) {
      throw new SbxError(
        "credential.invalid",
        `standard input is larger than ${SECRET_BYTES_MAX} bytes, the limit of a key`,
        { hint: "redirect a file that has only the key: sbx credentials add anthropic < key.txt" },
      );
    }
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

/** Reads a line of a terminal without echo. */
export async function readTyped(prompt: string): Promise<string> {
  await Deno.stderr.write(new TextEncoder().encode(prompt));
  Deno.stdin.setRaw(true);
  try {
    return await readLine();
  } finally {
    Deno.stdin.setRaw(false);
    note("");
  }
}

async function readLine(): Promise<string> {
  const bytes: number[] = [];
  const chunk = new Uint8Array(1024);
  for (let read = await Deno.stdin.read(chunk); read !== null; read = await Deno.stdin.read(chunk)) {
    for (const byte of chunk.subarray(0, read)) {
      if (byte === CTRL_C) {
        throw new SbxError("credential.invalid", "cancelled: nothing was stored", {
          hint: "run the command again",
        });
      }
      if (byte === ENTER || byte === NEWLINE || byte === CTRL_D) {
        return new TextDecoder().decode(Uint8Array.from(bytes));
      }
      if (byte === BACKSPACE || byte === DELETE) bytes.pop();
      else if (bytes.length < SECRET_BYTES_MAX) bytes.push(byte);
    }
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

/** Option of commands that ask a server for records. */
export const CREDENTIAL = [
  { name: "credential", value: "REF", about: "stored password for the user of clickhouse://USER@HOST" },
];

/** Makes the `authorization` header for the server that `--over` names; `undefined` without a credential. */
export function recordsAuthorization(args: Arguments): ((url: URL) => Promise<string>) | undefined {
  const credential_ref = args.text("credential");
  if (credential_ref === undefined) return undefined;
  const user = /^clickhouse:\/\/([^@/]+)@/.exec(args.text("over") ?? "")?.[1];
  return async (url) => {
    const { sinkAuthorization } = await import("../../../lib/credential/mod.ts");
    const terms = { credential_ref, ...(user !== undefined && { user: decodeURIComponent(user) }) };
    return await sinkAuthorization(home(), terms)(url);
  };
}
