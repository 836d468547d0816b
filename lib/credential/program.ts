/**
 * Secrets that a program or the environment of the host gives when they are needed
 * (docs/design/contracts/09-credentials.md §9, "Secrets of programs").
 */
import { isObject } from "../base/object/mod.ts";
import { isSecret, SECRET_MAX, SECRET_MIN } from "./form.ts";
import { awsKeysOf, readProcessKeys } from "./aws/keys.ts";
import { Catalogue } from "./catalogue.ts";
import type { Obtained, SecretOrigin } from "./entry.ts";
import type { Provider } from "./provider.ts";
import { programError as fail, RUN_MS, runProgram } from "./runner.ts";

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
 * Obtains a secret.
 *
 * @throws {SbxError} `credential.program`: there is no usable secret, and why
 */
export async function obtainSecret(
  origin: SecretOrigin,
  { runMs = RUN_MS, provider, key = "" }: ObtainTerms = {},
): Promise<Obtained> {
  if (origin.cloud) {
    // Few homes have one.
    if (origin.cloud.kind === "aws") {
      const { obtainAwsKeys } = await import("./aws/obtain.ts");
      return await obtainAwsKeys(origin.cloud, key);
    }
    const { obtainCloudToken } = await import("./cloud/obtain.ts");
    return await obtainCloudToken(origin.cloud, key);
  }
  const name = nameOf(origin);
  const text = origin.env === undefined
    ? await runProgram(origin.program ?? [], name, { runMs, confine: origin.confine })
    : variable(origin.env);
  const signs = provider !== undefined && Catalogue.BUILT_IN.signs(provider);
  const { secret, end } = (signs ? readProcessKeys(text) : undefined) ?? parse(text);
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
