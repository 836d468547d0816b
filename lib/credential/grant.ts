/**
 * Decides whether a credential may be sent to a destination; no other code decides this
 * (docs/design/contracts/09-credentials.md §9).
 */
import { placeIn } from "./decoy.ts";
import type { CredentialSubstitution } from "../event/mod.ts";
import { CredentialDenied, type Destination } from "../network/interface/mod.ts";
import { awsEndpoint } from "../network/aws/mod.ts";
import { isForVms, isOver, isSamePlace, type LoginPlace } from "./entry.ts";
import { type Catalogue, hostTest } from "./catalogue.ts";
import { plainHost } from "../base/address/mod.ts";
import { mintsCloudKeys } from "./cloud/minting.ts";
import { isCloudHost } from "./cloud/terms.ts";
import type { Provider } from "./provider.ts";
import { HINTS, REASON } from "./reason.ts";
import type { Credential, Vault } from "./vault.ts";

export { REASON };

/** Destination of a request, and the login it is made with; only requests of the host have a login. */
export interface GrantTo extends Destination {
  login?: LoginPlace;
  /**
   * path of the request, without its query; absent where the request has none, or carries the ref elsewhere
   */
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

/** Denials that are failures of the host, which no rule of a person decided. */
const FAILURES: ReadonlySet<string> = new Set([REASON.unreadable, REASON.notProvided, REASON.notOpen]);

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
  const host = plainHost(to.host);
  if (credential?.entry.decoy) {
    const key = codingKey(ref, to.host);
    const place = placeIn(location, vault.codings.get(key));
    vault.codings.delete(key);
    throw decoyUsed(vault, ref, host, place);
  }
  const denied = (reason: string): CredentialDenied =>
    deniedError({
      provider: credential?.entry.provider ?? "unknown",
      credential_ref: ref,
      host,
      location,
      outcome: FAILURES.has(reason) ? "error" : "denied",
      reason,
    });
  if (vault.broken) throw denied(REASON.unreadable);
  if (!credential) throw denied(REASON.unknown);
  const reason = ownerDenial(vault, credential, to) ?? hostDenial(vault, credential, to) ??
    useDenial(vault, credential, to, isAllowed);
  if (reason !== undefined) throw denied(reason);
  const { entry: { provider }, secret, controller: { signal } } = credential;
  if (secret === undefined) throw denied(REASON.notOpen);
  return { secret, provider, signal };
}

/** Reason why the asking VM, host or login has no right to a credential. */
function ownerDenial(vault: Vault, credential: Credential, to: GrantTo): string | undefined {
  const { isOwn, isRevoked, entry } = credential;
  const isAdded = entry.source === "added";
  if (isRevoked) return REASON.revoked;
  if (isOver(entry)) return REASON.over;
  if (isForVms(entry) && (to.isHost || !isOwn)) return REASON.notGranted;
  const isGranted = to.isHost
    ? vault.mayHostUse(entry.provider)
    : vault.mayUse(entry.provider, isOwn && !isAdded);
  if (!isGranted || !(isOwn || isAdded)) return REASON.notGranted;
  if (!to.isHost && isAdded && !vault.leaves(entry)) return REASON.notChosen;
  if (!isForLogin(entry.login, to.login)) return REASON.notGranted;
}

/** Reason why a credential may not go to a host. */
function hostDenial(vault: Vault, credential: Credential, to: GrantTo): string | undefined {
  const { provider, hosts, origin } = credential.entry;
  if (to.scheme !== "https") return REASON.notHttps;
  const catalogue = vault.catalogueOf(credential);
  if (!isProviderHost(catalogue, provider, hosts, to)) return REASON.wrongHost;
  // A login that a VM was lent is for its registry, and not for the provider's other services.
  if (isForVms(credential.entry) && hosts?.length && !isBound(hosts, to)) return REASON.wrongHost;
  if (catalogue.find(provider)?.cloud_hosts) {
    const host = plainHost(to.host);
    if (!isCloudHost(origin?.cloud, host)) return REASON.otherResource;
    if (mintsCloudKeys(host, to.target)) return REASON.mintsKeys;
  }
  if (!vault.mayReach(provider, to.host)) return REASON.leftOut;
}

/** Reason why a credential may not be used in this place of this request, or now. */
function useDenial(
  vault: Vault,
  credential: Credential,
  to: GrantTo,
  isAllowed: IsAllowed,
): string | undefined {
  const { provider, subscription, origin, loan } = credential.entry;
  const catalogue = vault.catalogueOf(credential);
  if (!isAllowed(provider, catalogue)) return REASON.wrongPlace;
  if (loan?.path !== undefined && to.path !== loan.path) return REASON.wrongPath;
  if (subscription?.part === "refresh") return REASON.hostOnly;
  if (subscription && !catalogue.carriesSubscription(provider, to.host, to.path)) return REASON.wrongUse;
  if (origin && !(Date.now() < (credential.expiresAt ?? 0))) return REASON.notProvided;
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
 * Use of a decoy, a credential that was never granted. A guest sees the answer for an unknown ref; the
 * recorded substitution's reason leads to the finding.
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

/** A login's token goes with requests of this login only, which carry no other credential. */
function isForLogin(stored: LoginPlace | undefined, used: LoginPlace | undefined): boolean {
  return stored && used ? isSamePlace(stored, used) : !stored && !used;
}

/** True for hosts that the provider owns, and for hosts that the credential names. */
function isProviderHost(
  catalogue: Catalogue,
  provider: Provider,
  hosts: string[] | undefined,
  to: Destination,
): boolean {
  const { host } = to;
  if (catalogue.signs(provider) && !hosts?.length) return awsEndpoint(host) !== undefined;
  if (catalogue.isCloudHost(provider, host)) return true;
  return catalogue.ownerOf(host) === provider || isBound(hosts ?? [], to) && catalogue.namesHosts(provider);
}

/** True for a host that a credential names. */
function isBound(hosts: readonly string[], { host, port }: Destination): boolean {
  const name = plainHost(host);
  return hosts.some((bound) => bound === `${name}:${port}` || hostTest(bound)(name));
}
