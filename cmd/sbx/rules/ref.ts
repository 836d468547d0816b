/** Refs of credentials in arguments and tables: their first digits are enough. */
import type { CredentialList } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";

/** Fewest digits that select a credential. */
const SHORT_MIN = 6;
/** Digits of a ref in tables. */
const SHORT_LENGTH = 12;

/**
 * Finds the ref that begins with the given digits.
 * @throws {SbxError} `credential.not_found`, `credential.conflict`
 */
export async function findRef(client: Client, word: string): Promise<string> {
  requireDigits(word, "sbx credentials list");
  const { credentials } = await fetchCredentials(client);
  return refAmong(credentials.map(({ ref }) => ref), word, {
    name: "credential",
    plural: "credentials",
    hint: "sbx credentials list --json shows the full refs",
  });
}

/**
 * Finds the ref of an offered login that begins with the given digits.
 * @throws {SbxError} as {@linkcode findRef}
 */
export function findOfferedRef(refs: readonly string[], word: string): string {
  requireDigits(word, "sbx credentials keep");
  return refAmong(refs, word, {
    name: "login of an agent",
    plural: "logins of agents",
    hint: "sbx credentials keep lists the logins that agents made; --json shows the full refs",
  });
}

function digitsOf(word: string): string {
  return word.replace(/^credential:blake3:/, "");
}

/** @param list command that shows refs */
function requireDigits(word: string, list: string): void {
  const digits = digitsOf(word);
  if (/^[0-9a-f]+$/.test(digits) && digits.length >= SHORT_MIN) return;
  throw new SbxError("usage.invalid", `invalid ref "${word}"`, {
    hint: `give at least its first ${SHORT_MIN} digits; ${list} shows them`,
  });
}

function refAmong(
  refs: readonly string[],
  word: string,
  { name, plural, hint }: { name: string; plural: string; hint: string },
): string {
  const digits = digitsOf(word);
  const matches = refs.filter((ref) => ref.startsWith(`credential:blake3:${digits}`));
  if (matches.length === 1) return matches[0];
  throw new SbxError(
    matches.length ? "credential.conflict" : "credential.not_found",
    matches.length ? `${matches.length} ${plural} begin with ${digits}` : `no ${name} begins with ${digits}`,
    { hint },
  );
}

/** Digits of a ref that a table shows. */
export function shortRef(ref: string): string {
  return ref.replace(/^credential:blake3:/, "").slice(0, SHORT_LENGTH);
}

export async function fetchCredentials(client: Client): Promise<CredentialList> {
  return await client.json<CredentialList>("GET", "/credentials/list");
}
