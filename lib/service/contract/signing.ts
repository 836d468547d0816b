/**
 * Keys that sign commits and tags, as a person adds them
 * (docs/design/contracts/09-credentials.md §9, "Commits and tags").
 */
import type { CredentialAdd } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { looksSecret, type NewCredential, SIGNING } from "../../credential/mod.ts";
import { findGpgKey, readSigningKey, type SigningTerms, signPayload } from "../../sign/mod.ts";

/** Bytes that a key signs to prove itself: no commit, tag or anything else has these bytes. */
const PROOF = new TextEncoder().encode("sbx: a key was added\n");

/**
 * Checks a key, by a signature where that asks nobody.
 *
 * @throws {SbxError} `credential.invalid`, `sign.key.invalid`
 */
export async function signingCredential(
  { secret, label, host, decoy, custom, origin, database, signing }: CredentialAdd,
): Promise<NewCredential> {
  if (host !== undefined || decoy || custom || origin || database) {
    throw invalid("a key that signs has no host, decoy, program or database", "leave them out");
  }
  if (!signing) throw invalid("a key that signs is missing", "sbx credentials add signing --key FILE");
  if (label !== undefined && looksSecret(label)) {
    throw invalid("the label looks like a key, and lists would show it", "give another label");
  }
  const terms = await termsOf(signing);
  if ((terms.from === "key") !== (secret !== undefined)) {
    throw invalid(
      secret === undefined ? "the private key is missing" : "an agent or gpg has its key already",
      "give one of --key, --agent and --gpg",
    );
  }
  if (secret !== undefined) await requireOwn(terms, secret);
  return {
    provider: SIGNING,
    // The ref of a key that is elsewhere is made of a random text.
    secret: secret ?? crypto.randomUUID(),
    signing: terms,
    ...(label !== undefined && { label }),
  };
}

async function termsOf(
  { public: line, agent, gpg, gpg_home, emails }: NonNullable<CredentialAdd["signing"]>,
): Promise<SigningTerms> {
  const named = emails && emails.length > 0 ? { emails } : {};
  if (gpg !== undefined) {
    if (line !== undefined || agent !== undefined) throw invalid("two keys", "give --gpg alone");
    const { fingerprint, public: key, emails: own } = await findGpgKey(gpg, gpg_home);
    return {
      format: "openpgp",
      from: "gpg",
      public: key,
      fingerprint,
      ...(own.length > 0 && { emails: own }),
      ...named,
      ...(gpg_home !== undefined && { place: gpg_home }),
    };
  }
  if (line === undefined || gpg_home !== undefined) {
    throw invalid("the public key is missing", "give its file: --public FILE.pub");
  }
  const key = readSigningKey(line);
  return {
    format: "ssh",
    from: agent === undefined ? "key" : "agent",
    public: key.line,
    fingerprint: key.fingerprint,
    ...named,
    ...(agent !== undefined && { place: agent }),
  };
}

/** The halves of a key belong together. */
async function requireOwn(terms: SigningTerms, secret: string): Promise<void> {
  try {
    await signPayload(terms, secret, PROOF, new AbortController().signal);
  } catch (cause) {
    throw new SbxError("credential.invalid", "the private key does not sign for this public key", {
      cause,
      hint: "sbx credentials add signing --key FILE reads both from the file",
    });
  }
}

function invalid(problem: string, hint: string): SbxError {
  return new SbxError("credential.invalid", problem, { hint });
}
