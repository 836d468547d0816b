/**
 * Decides whether a credential may be used at a destination; the only code that does
 * (docs/design/contracts/09-credentials.md §9).
 */
import { placeIn } from "./decoy.ts";
import type { CredentialSubstitution } from "../event/mod.ts";
import { CredentialDenied, type Destination } from "../network/interface/mod.ts";
import { awsEndpoint } from "../network/aws/mod.ts";
import { isSamePlace, type LoginPlace } from "./entry.ts";
import { type Catalogue, hostTest } from "./catalogue.ts";
import { plainHost } from "../base/address/mod.ts";
import { mintsCloudKeys } from "./cloud/minting.ts";
import { isCloudHost } from "./cloud/terms.ts";
import type { Provider } from "./provider.ts";
import { HINTS, REASON } from "./reason.ts";
import type { Vault } from "./vault.ts";

export { REASON };

/** Destination of a request, and the login that it is made with; only the host makes requests with one. */
export interface GrantTo extends Destination {
  login?: LoginPlace;
  /** path of the request, without its query; absent where the request has none, or carries the ref elsewhere */
  path?: string;
  /** path and query; absent as `path` is */
  target?: string;
  /** the host itself asks; a definition that names the ref is the grant */
  isHost?: boolean;
}

/** Secret that may be sent. */
export interface Grant {
  secret: string;
  provider: Provider;
  /** aborts when the credential is revoked */
  signal: AbortSignal;
}

/** Tests whether a catalogue lets a secret of the provider travel at some location. */
export type IsAllowed = (provider: Provider, catalogue: Catalogue) => boolean;

/**
 * Grants the secret behind a ref, if this VM may send it to the destination.
 *
 * @param isAllowed tests the location
 * @throws {CredentialDenied} for a refused ref
 */
export function grantSecret(
  vault: Vault,
  ref: string,
  to: GrantTo,
  location: string,
  isAllowed: IsAllowed,
): Grant {
  vault.poll();
  const credential = vault.get(ref);
  const provider = credential?.entry.provider;
  const row = (outcome: "denied" | "error", reason: string): CredentialSubstitution => ({
    provider: provider ?? "unknown",
    credential_ref: ref,
    host: plainHost(to.host),
    location,
    outcome,
    reason,
  });
  if (credential?.entry.decoy) {
    const key = codingKey(ref, to.host);
    const place = placeIn(location, vault.codings.get(key));
    vault.codings.delete(key);
    throw decoyUsed(vault, ref, plainHost(to.host), place);
  }
  if (vault.broken) throw deniedError(row("error", REASON.unreadable));
  if (!credential || !provider) throw deniedError(row("denied", REASON.unknown));
  if (credential.isRevoked) throw deniedError(row("denied", REASON.revoked));
  const { isOwn, entry: { source } } = credential;
  const isGranted = to.isHost
    ? vault.mayHostUse(provider)
    : vault.mayUse(provider, isOwn && source !== "added");
  if (!isGranted || !(isOwn || source === "added")) {
    throw deniedError(row("denied", REASON.notGranted));
  }
  if (!to.isHost && source === "added" && !vault.leaves(credential.entry)) {
    throw deniedError(row("denied", REASON.notChosen));
  }
  if (!isForLogin(credential.entry.login, to.login)) throw deniedError(row("denied", REASON.notGranted));
  if (to.scheme !== "https") throw deniedError(row("denied", REASON.notHttps));
  const catalogue = vault.catalogueOf(credential);
  if (!isProviderHost(catalogue, provider, credential.entry.hosts, to)) {
    throw deniedError(row("denied", REASON.wrongHost));
  }
  if (catalogue.find(provider)?.cloud_hosts) {
    const host = plainHost(to.host);
    if (!isCloudHost(credential.entry.origin?.cloud, host)) {
      throw deniedError(row("denied", REASON.otherResource));
    }
    if (mintsCloudKeys(host, to.target)) throw deniedError(row("denied", REASON.mintsKeys));
  }
  if (!vault.mayReach(provider, to.host)) throw deniedError(row("denied", REASON.leftOut));
  if (!isAllowed(provider, catalogue)) throw deniedError(row("denied", REASON.wrongPlace));
  const { subscription } = credential.entry;
  if (subscription?.part === "refresh") throw deniedError(row("denied", REASON.hostOnly));
  if (subscription && !catalogue.carriesSubscription(provider, to.host, to.path)) {
    throw deniedError(row("denied", REASON.wrongUse));
  }
  if (credential.entry.origin && !(Date.now() < (credential.expiresAt ?? 0))) {
    throw deniedError(row("error", REASON.notProvided));
  }
  if (credential.secret === undefined) throw deniedError(row("error", REASON.notOpen));
  return { secret: credential.secret, provider, signal: credential.controller.signal };
}

/** Key of {@linkcode Vault.codings}. */
export function codingKey(ref: string, host: string): string {
  return `${ref} ${plainHost(host)}`;
}

/** Error of a denial, for the guest and the ledger. */
export function deniedError(row: CredentialSubstitution): CredentialDenied {
  return new CredentialDenied(denialText(row), [row], HINTS[row.reason ?? ""]);
}

/**
 * Use of a decoy: an attempt with credentials that were never granted. To a guest it looks like any unknown
 * ref; the reason of the recorded substitution makes the finding.
 */
export class DecoyUsed extends CredentialDenied {
  constructor(row: CredentialSubstitution) {
    const shown = { ...row, provider: "unknown", reason: REASON.unknown };
    super(denialText(shown), [{ ...row, outcome: "denied", reason: REASON.decoy }], HINTS[REASON.unknown]);
  }
}

/** {@linkcode DecoyUsed} for a decoy of a vault. */
export function decoyUsed(vault: Vault, ref: string, host: string, location: string): DecoyUsed {
  const provider = vault.get(ref)?.entry.provider ?? "unknown";
  return new DecoyUsed({ provider, credential_ref: ref, host, location, outcome: "denied" });
}

function denialText({ provider, host, location, reason }: CredentialSubstitution): string {
  const what = provider === "unknown" ? "a credential" : `a credential of ${provider}`;
  return `${what} in ${location} was not sent to ${host}: ${reason}`;
}

/** A token of a login is for requests with this login only, and those carry no other credential. */
function isForLogin(stored: LoginPlace | undefined, used: LoginPlace | undefined): boolean {
  return stored && used ? isSamePlace(stored, used) : !stored && !used;
}

/** A credential goes to hosts that its provider owns, and to hosts that it names. */
function isProviderHost(
  catalogue: Catalogue,
  provider: Provider,
  hosts: string[] | undefined,
  { host, port }: Destination,
): boolean {
  const name = plainHost(host);
  if (catalogue.signs(provider) && !hosts?.length) return awsEndpoint(host) !== undefined;
  if (catalogue.isCloudHost(provider, host)) return true;
  const isBound = hosts?.some((bound) => bound === `${name}:${port}` || hostTest(bound)(name)) ?? false;
  return catalogue.ownerOf(host) === provider || isBound && catalogue.namesHosts(provider);
}
