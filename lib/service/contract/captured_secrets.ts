/**
 * Secrets that a person brings for a VM: they are stored, and the guest gets refs
 * (docs/design/contracts/09-credentials.md §9).
 */
import { Buffer } from "node:buffer";
import { basename } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import {
  CAPTURED_MAX,
  CredentialBroker,
  CredentialStore,
  SECRET_MIN,
  storePath,
} from "../../credential/mod.ts";

/** `.env`, `.env.local`, `prod.env`. */
const DOT_ENV = /^\.env(\..+)?$|\.env$/i;

/**
 * Replaces the secrets among requested variables by refs. The secrets are stored for this VM; no guest and no
 * record has them.
 *
 * @throws {SbxError} as {@linkcode capture}
 */
export async function withoutSecrets(
  home: Home,
  vm: string,
  env: Record<string, string>,
): Promise<Record<string, string>> {
  const candidates = Object.entries(env).filter(([, value]) => value.length >= SECRET_MIN);
  if (candidates.length === 0) return env;
  const { texts } = await capture(
    home,
    vm,
    "a variable",
    candidates.map(([name, value]) => `${name}=${value}`),
  );
  const clean = candidates.map(([name], at) => [name, texts[at].slice(name.length + 1)]);
  return { ...env, ...Object.fromEntries(clean) };
}

/** Tests whether a path of a workspace names a file of variables. */
export function isDotEnv(path: string): boolean {
  return DOT_ENV.test(basename(path));
}

/**
 * Replaces the secrets of a `.env` file by refs, as {@linkcode withoutSecrets} does for variables. Other
 * bytes stay as they are, whatever their encoding.
 *
 * @returns the file, and the number of replaced secrets
 * @throws {SbxError} as {@linkcode capture}
 */
export async function dotEnvWithoutSecrets(
  home: Home,
  vm: string,
  file: Uint8Array,
): Promise<{ file: Uint8Array; captured: number }> {
  if (file.length < SECRET_MIN) return { file, captured: 0 };
  const text = Buffer.from(file.buffer, file.byteOffset, file.byteLength).toString("latin1");
  const { texts: [clean], captured } = await capture(home, vm, "the file", [text]);
  return { file: captured > 0 ? Buffer.from(clean, "latin1") : file, captured };
}

/**
 * @param what the place of the secrets, for errors
 * @throws {SbxError} `credential.unreadable`: a secret cannot be stored; `credential.limit`: more secrets
 * than a VM may bring
 */
async function capture(
  home: Home,
  vm: string,
  what: string,
  texts: string[],
): Promise<{ texts: string[]; captured: number }> {
  let problem: SbxError | undefined;
  const store = new CredentialStore(storePath(home));
  const broker = await CredentialBroker.open({
    store,
    providers: [],
    vm,
    onError: (error) => problem = error,
  });
  try {
    const clean = texts.map((text) => broker.captureDotEnv(text));
    const substitutions = clean.flatMap(({ substitutions }) => substitutions);
    await broker.flush();
    problem = broker.broken ?? problem;
    if (substitutions.length > 0 && problem) {
      throw new SbxError(
        "credential.unreadable",
        `${what} holds a secret, and the credential store cannot be used`,
        { cause: problem, hint: problem.message },
      );
    }
    if (substitutions.some(({ outcome }) => outcome === "error")) {
      throw new SbxError(
        "credential.limit",
        `${what} holds more secrets than a VM may bring (${CAPTURED_MAX})`,
        {
          hint: "add the keys that the VM needs: sbx credentials add PROVIDER",
        },
      );
    }
    return { texts: clean.map(({ text }) => text), captured: substitutions.length };
  } finally {
    await broker.close();
  }
}
