/**
 * Secrets that a program or the environment of the host gives when they are needed
 * (docs/design/contracts/09-credentials.md §9, "Secrets of programs").
 */
import { Buffer } from "node:buffer";
import process from "node:process";
import { SbxError } from "../base/error/mod.ts";
import { isObject } from "../base/object/mod.ts";
import { isSecret, SECRET_MAX, SECRET_MIN } from "./form.ts";
import { awsKeysOf, joinAwsKeys } from "./aws/keys.ts";
import { Catalogue } from "./catalogue.ts";
import type { Obtained, SecretOrigin } from "./entry.ts";
import type { Provider } from "./provider.ts";

/** Longest run of a program, in `ms`: a person may have to unlock a vault. */
const RUN_MS = 60_000;
/** Most bytes of its output. */
const OUTPUT_MAX = 64 * 1024;
/** Time for which a secret without an end of its own is used, in `s`. */
const TTL_S = 900;

/** Terms of one attempt to obtain a secret. */
export interface ObtainTerms {
  /** longest run of a program, in `ms` */
  runMs?: number;
  /** whose secrets have a form of their own */
  provider?: Provider;
  /** secret of the store, which the token of a cloud is obtained with */
  key?: string;
}

/**
 * Obtains a secret. A program gets no input and the environment of the service without sbx's own variables; its output is
 * kept in memory alone, and its errors are not read, since they may hold a secret.
 *
 * @throws {SbxError} `credential.program`: there is no usable secret, and why
 */
export async function obtainSecret(
  origin: SecretOrigin,
  { runMs = RUN_MS, provider, key = "" }: ObtainTerms = {},
): Promise<Obtained> {
  if (origin.cloud) {
    // Few homes have one.
    const { obtainCloudToken } = await import("./cloud/obtain.ts");
    return await obtainCloudToken(origin.cloud, key);
  }
  const name = nameOf(origin);
  const text = origin.env === undefined ? await run(origin.program ?? [], name, runMs) : variable(origin.env);
  const signs = provider !== undefined && Catalogue.BUILT_IN.signs(provider);
  const { secret, end } = (signs ? parseKeys(text) : undefined) ?? parse(text);
  if (signs && !awsKeysOf(secret)) {
    throw fail(
      `${name} gave no usable keys: an id, a secret and, for keys with an end, a session token`,
      "let it print the JSON of credential_process: aws configure export-credentials --format process",
    );
  }
  if (!isSecret(secret)) {
    throw fail(
      `${name} gave no usable secret: it must be ${SECRET_MIN} to ${SECRET_MAX} visible ASCII characters without spaces`,
      'let it print the key alone, or {"secret": "…", "expires_at": "…"}',
    );
  }
  const obtained_at = Date.now();
  const expires_at = end ?? obtained_at + (origin.ttl_s ?? TTL_S) * 1000;
  if (!(expires_at > obtained_at)) throw fail(`${name} gave a secret that has expired`, "run it by hand");
  return { secret, obtained_at, expires_at };
}

function variable(name: string): string {
  const text = Deno.env.get(name);
  if (text !== undefined) return text;
  throw fail(`the service has no variable ${name}`, "set it where sbx-service starts, and start that again");
}

function fail(problem: string, hint: string): SbxError {
  return new SbxError("credential.program", problem, { hint });
}

/** A name for errors and lists. */
function nameOf({ env, program = [] }: SecretOrigin): string {
  return env === undefined ? `the program ${program[0]}` : `the variable ${env}`;
}

/** The text alone, or an object that has the end of the secret too. */
function parse(text: string): { secret: string; end?: number } {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{")) return { secret: trimmed };
  try {
    const value: unknown = JSON.parse(trimmed);
    if (isObject(value) && typeof value.secret === "string") {
      const { secret, expires_at } = value;
      return { secret, ...(expires_at !== undefined && { end: Date.parse(String(expires_at)) }) };
    }
  } catch {
    // A key may begin with a brace.
  }
  return { secret: trimmed };
}

/** Keys as `credential_process` of AWS clients prints them; `undefined` for another text. */
function parseKeys(text: string): { secret: string; end?: number } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return undefined;
    const { AccessKeyId: id, SecretAccessKey: secret, SessionToken: token, Expiration: end } = value;
    if (typeof id !== "string" || typeof secret !== "string") return undefined;
    if (token !== undefined && token !== null && typeof token !== "string") return undefined;
    const joined = joinAwsKeys({ id, secret, ...(token && { token }) });
    return joined === undefined ? undefined : {
      secret: joined,
      ...(end !== undefined && end !== null && { end: Date.parse(String(end)) }),
    };
  } catch {
    return undefined;
  }
}

/** Runs a program in a group of its own, which ends with it, its time or its output. */
async function run(argv: readonly string[], name: string, runMs: number): Promise<string> {
  // Takes 15 ms to load, which every process with a broker would pay.
  const { spawn } = await import("node:child_process");
  const variables = Object.entries(Deno.env.toObject()).filter(([variable]) => !variable.startsWith("SBX_"));
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn(argv[0], argv.slice(1), {
    cwd: "/",
    detached: true,
    env: Object.fromEntries(variables),
    stdio: ["ignore", "pipe", "ignore"],
  });
  const chunks: Uint8Array[] = [];
  let size = 0;
  const end = (problem: string) => {
    reject(fail(`${name} ${problem}`, "run it by hand to see its message"));
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    child.stdout?.destroy();
  };
  const timer = setTimeout(() => end(`did not end within ${Math.round(runMs / 1000)} s`), runMs);
  child.stdout?.on("data", (chunk: Uint8Array) => {
    size += chunk.length;
    if (size > OUTPUT_MAX) end(`wrote more than ${OUTPUT_MAX} bytes`);
    else chunks.push(chunk);
  });
  child.on(
    "error",
    (error: NodeJS.ErrnoException) =>
      end(error.code === "ENOENT" ? "was not found" : `cannot be run (${error.code ?? "unknown reason"})`),
  );
  child.on("close", (code, signal) => {
    if (code === 0) resolve(new TextDecoder().decode(Buffer.concat(chunks)));
    else end(signal ? `was ended by ${signal}` : `failed with status ${code}`);
  });
  return await promise.finally(() => clearTimeout(timer));
}
