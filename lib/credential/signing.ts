/**
 * Keys that sign commits and tags for a VM, and the settings of its git for them
 * (docs/design/contracts/09-credentials.md §9).
 */
import { SbxError } from "../base/error/mod.ts";
import { COMMANDS_PATH } from "../machine/guest/wire/mod.ts";
import type { SigningTerms } from "../sign/mod.ts";
import type { GuestLoginFile } from "./subscription/guest.ts";
import type { Credential, Vault } from "./vault.ts";

/** Provider of keys that sign. */
export const SIGNING = "signing";
/** Program that git calls in place of ssh-keygen and gpg. */
const PROGRAM = `${COMMANDS_PATH}/sbx-sign`;
/** Files by which a guest verifies signatures. */
const SIGNERS_PATH = "/etc/sbx/allowed_signers";
const OPENPGP_PATH = "/etc/sbx/signers.asc";
/** Principal of a key that was added for no address. */
const NO_EMAIL = "sbx";

/** A key that this VM may use now. */
export interface SigningKey {
  ref: string;
  terms: SigningTerms;
  /** of a key in the store */
  secret: string;
  /** aborts when the credential is revoked */
  released: AbortSignal;
}

/** Keys that this VM may use, the one added last first. */
function usable(vault: Vault): Credential[] {
  if (!vault.mayUse(SIGNING, false)) return [];
  return [...vault.active()].filter(({ entry: { provider, signing, source, decoy }, secret }) =>
    // An open seal has proved the terms.
    provider === SIGNING && signing !== undefined && secret !== undefined && source === "added" && !decoy
  ).toSorted((a, b) => b.entry.created_at.localeCompare(a.entry.created_at));
}

/**
 * The key by which this VM's git signs.
 *
 * @param ref only this one
 * @throws {SbxError} `credential.denied`: the VM has none, or it is revoked
 */
export function signingKeyOf(vault: Vault, ref?: string): SigningKey {
  vault.poll();
  const found = vault.broken
    ? undefined
    : usable(vault).find(({ entry }) => ref === undefined || entry.ref === ref);
  if (found) {
    const { entry: { ref, signing }, secret, controller: { signal } } = found;
    return { ref, terms: signing!, secret: secret!, released: signal };
  }
  const problem = vault.broken
    ? "the credential store of the host cannot be read"
    : vault.mayUse(SIGNING, false)
    ? ref === undefined
      ? "the host has no key for signatures"
      : "the key was revoked while a person was asked"
    : "this VM's profile grants no key for signatures";
  throw new SbxError("credential.denied", problem, {
    hint: 'sbx credentials add signing --key FILE adds one; [credentials] providers = ["signing"] grants it',
  });
}

/** Settings of a guest's git, by which it asks the host for signatures and verifies them itself. */
export function signingSettings(vault: Vault): [string, string][] {
  const [latest] = usable(vault);
  if (!latest) return [];
  const { format, public: key, fingerprint } = latest.entry.signing!;
  return [
    ["gpg.ssh.program", PROGRAM],
    ["gpg.program", PROGRAM],
    ["gpg.format", format],
    ["user.signingkey", format === "ssh" ? `key::${key}` : fingerprint],
    ["gpg.ssh.allowedSignersFile", SIGNERS_PATH],
    ["commit.gpgsign", "true"],
    ["tag.gpgsign", "true"],
  ];
}

/** True for the value of a setting that only {@linkcode signingSettings} makes. */
export function isSigningProgram(value: string): boolean {
  return value === PROGRAM;
}

/** Files with the public keys. */
export function signingFiles(vault: Vault): GuestLoginFile[] {
  const all = usable(vault).map(({ entry }) => entry.signing!);
  const lines = all.filter(({ format }) => format === "ssh").map(({ public: key, emails }) =>
    `${emails?.join(",") || NO_EMAIL} namespaces="git" ${key}\n`
  );
  const keys = all.filter(({ format }) => format === "openpgp").map(({ public: key }) => key);
  return [
    ...(all.length > 0 ? [{ path: SIGNERS_PATH, text: lines.join("") }] : []),
    ...(keys.length > 0 ? [{ path: OPENPGP_PATH, text: keys.join("\n") }] : []),
  ];
}
