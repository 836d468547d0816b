/** Refs of credentials in arguments and tables: their first digits are enough. */
import type { CredentialList } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";

/** Fewest digits that select a credential. */
const SHORT_MIN = 6;
/** Digits of a ref in tables. */
const SHORT_LENGTH = 12;

/** Finds the ref that begins with the given digits. @throws {SbxError} `credential.not_found`, `credential.conflict` */
export async function findRef(client: Client, word: string): Promise<string> {
  const digits = word.replace(/^credential:blake3:/, "");
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < SHORT_MIN) {
    throw new SbxError("usage.invalid", `invalid ref "${word}"`, {
      hint: `give at least its first ${SHORT_MIN} digits; sbx credentials list shows them`,
    });
  }
  const { credentials } = await fetchCredentials(client);
  const matches = credentials.filter(({ ref }) => ref.startsWith(`credential:blake3:${digits}`));
  if (matches.length === 1) return matches[0].ref;
  throw new SbxError(
    matches.length ? "credential.conflict" : "credential.not_found",
    matches.length
      ? `${matches.length} credentials begin with ${digits}`
      : `no credential begins with ${digits}`,
    { hint: "sbx credentials list --json shows the full refs" },
  );
}

/** Digits of a ref that a table shows. */
export function shortRef(ref: string): string {
  return ref.replace(/^credential:blake3:/, "").slice(0, SHORT_LENGTH);
}

export async function fetchCredentials(client: Client): Promise<CredentialList> {
  return await client.json<CredentialList>("GET", "/credentials/list");
}
