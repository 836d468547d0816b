/** Finds the credential behind a guest's signed request, or the reason to refuse it. */
import { awsEndpoint } from "../../network/aws/mod.ts";
import { plainHost } from "../../base/address/mod.ts";
import type { CredentialSubstitution } from "../../event/mod.ts";
import type {
  Destination,
  Header,
  Injected,
  RequestSignature,
  SignedRequest,
} from "../../network/interface/mod.ts";
import type { Accounts } from "../account.ts";
import { DecoyUsed, deniedError, grantSecret } from "../grant.ts";
import { REASON } from "../reason.ts";
import type { Credential, Vault } from "../vault.ts";
import { claimsAws, claimsOldAws, signatureOf } from "./claim.ts";
import { awsKeysOf } from "./keys.ts";
import { isPlaceholderId } from "./placeholder.ts";
import { AwsSignature } from "./signature.ts";

const PROVIDER = "aws";

/**
 * Finds the signature of a request that stands for a stored key, or that may not be sent; `undefined` for a
 * request that goes out as it is.
 *
 * @param inject replaces refs in the other fields
 * @param onSigned receives the host and ref of each key that signs
 */
export function awsSignature(
  vault: Vault,
  accounts: Accounts,
  request: SignedRequest,
  { inject, onSigned }: {
    inject(to: Destination, headers: Header[]): Injected;
    onSigned(host: string, ref: string): void;
  },
): RequestSignature | undefined {
  const mark = request.target.indexOf("?");
  const query = mark < 0 ? "" : request.target.slice(mark + 1);
  const isClaimed = claimsAws(query, request.headers);
  if (!isClaimed && !claimsOldAws(query, request.headers)) return undefined;
  vault.poll();
  const reading = signatureOf(query, request.headers);
  const id = reading?.claim?.id ?? (reading?.fault === undefined ? undefined : reading.id);
  if (id === undefined) return strangerOf(vault, accounts, request.host);
  const placeholder = vault.placeholder(id);
  if (placeholder && reading?.claim) {
    const { credential, secret } = placeholder;
    return new AwsSignature(
      {
        placeholder: secret,
        hasHosts: (credential.entry.hosts ?? []).length > 0,
        grant: (to, location) => {
          const grant = grantSecret(vault, credential.entry.ref, to, location, () => true);
          onSigned(to.host, credential.entry.ref);
          return grant;
        },
        inject,
        row: (to, location) => rowOf(credential, to, location),
      },
      reading.claim,
      request,
    );
  }
  if (placeholder) return new Refused(placeholder.credential, REASON.unreadableSignature);
  if (isPlaceholderId(id)) return new Refused(undefined, REASON.notGranted);
  const decoy = decoyOf(vault, id);
  return decoy ? new Refused(decoy, REASON.decoy) : strangerOf(vault, accounts, request.host);
}

/**
 * Refuses a key that the store does not have, at AWS and its like, where only stored accounts are allowed.
 */
function strangerOf(vault: Vault, accounts: Accounts, host: string): Refused | undefined {
  if (accounts !== "stored" || awsEndpoint(host) === undefined && !namesHost(vault, host)) return undefined;
  return new Refused(undefined, REASON.account);
}

/** True for the host of an S3-compatible store that a stored key names. */
function namesHost(vault: Vault, host: string): boolean {
  const name = plainHost(host);
  return vault.active().some(({ entry: { provider, hosts = [] } }) =>
    provider === PROVIDER && hosts.some((bound) => bound.split(":")[0] === name)
  );
}

/** Decoy whose key has this identifier. */
function decoyOf(vault: Vault, id: string): Credential | undefined {
  for (const credential of vault.active()) {
    const { entry: { provider, decoy }, secret } = credential;
    if (decoy && provider === PROVIDER && secret !== undefined && awsKeysOf(secret)?.id === id) {
      return credential;
    }
  }
}

function rowOf(
  credential: Credential | undefined,
  { host }: Destination,
  location: string,
): Omit<CredentialSubstitution, "outcome"> {
  return {
    provider: PROVIDER,
    credential_ref: credential?.entry.ref ?? "unknown",
    host: plainHost(host),
    location,
  };
}

/** A signature that is never replaced: its request is recorded, and then refused. */
class Refused implements RequestSignature {
  readonly needsBody = false;
  readonly #credential: Credential | undefined;
  readonly #reason: string;

  constructor(credential: Credential | undefined, reason: string) {
    this.#credential = credential;
    this.#reason = reason;
  }

  check(): void {}

  requireHarmless(): void {}

  sign(to: SignedRequest): Injected {
    const row = {
      ...rowOf(this.#credential, to, "signature"),
      outcome: "denied" as const,
      reason: this.#reason,
    };
    throw this.#reason === REASON.decoy ? new DecoyUsed(row) : deniedError(row);
  }
}
