/** Whether a credential may be used at some place; the one place where that is decided (contracts.md §9). */
import type { CredentialSubstitution } from "../event/mod.ts";
import { CredentialDenied, type Destination } from "../net/port/broker.ts";
import { ownerOf, plainHost, type Provider } from "./provider.ts";
import type { Vault } from "./vault.ts";

/** A secret that may be sent. */
export interface Use {
  secret: string;
  provider: Provider;
  /** aborts when it is revoked */
  signal: AbortSignal;
}

/** A finding that the caller adds to the event of a {@linkcode DecoyUsed}. */
export interface DecoyFinding {
  rule_id: "credential-decoy";
  title: string;
  severity: "critical";
  confidence: "high";
  tags: string[];
}

/** A decoy was used: somebody tries credentials that nobody gave them. */
export class DecoyUsed extends CredentialDenied {
  readonly finding: DecoyFinding;

  constructor(substitutions: readonly CredentialSubstitution[]) {
    super("this credential is a decoy, and using it has raised an alarm", substitutions);
    this.finding = {
      rule_id: "credential-decoy",
      title: "A decoy credential was used",
      severity: "critical",
      confidence: "high",
      tags: ["credential", "decoy"],
    };
  }
}

/** What the refusals of a broker are told by, in `credential.substitution.reason`. */
export const REASON = {
  decoy: "decoy",
  unknown: "unknown ref",
  malformed: "malformed ref",
  revoked: "revoked",
  notGranted: "not granted to this VM",
  wrongHost: "the provider does not own this host",
  notHttps: "not over https",
  wrongPlace: "secrets do not travel here",
  inBody: "withheld from a body",
  unreadable: "the credential store cannot be read",
  notOpen: "the credential is not open yet",
  tooMany: "this VM brought too many secrets",
} as const;

const HINTS: Record<string, string> = {
  [REASON.unknown]: "sbx credentials list shows the refs that there are",
  [REASON.revoked]: "sbx credentials add gives the VM another one",
  [REASON.notGranted]: "add the provider to [credentials] providers of the VM's profile",
  [REASON.wrongHost]: "a ref is good for its provider's own hosts only",
  [REASON.notHttps]: "use https",
  [REASON.wrongPlace]: "send it in the header that the provider documents",
  [REASON.unreadable]: "sbx credentials list says what is wrong with it",
};

/**
 * The secret behind a ref, if this VM may send it there.
 *
 * @param providers those that the VM's profile grants
 * @param travels whether a secret of the provider may travel at the place
 * @throws {CredentialDenied} {@linkcode DecoyUsed} for a decoy
 */
export function useOf(
  vault: Vault,
  providers: ReadonlySet<Provider>,
  ref: string,
  to: Destination,
  location: string,
  travels: (provider: Provider) => boolean,
): Use {
  vault.look();
  const known = vault.get(ref);
  const provider = known?.entry.provider;
  const row = (outcome: "denied" | "error", reason: string): CredentialSubstitution => ({
    provider: provider ?? "unknown",
    credential_ref: ref,
    host: plainHost(to.host),
    location,
    outcome,
    reason,
  });
  if (known?.entry.decoy) throw new DecoyUsed([row("denied", REASON.decoy)]);
  if (vault.broken) throw refused(row("error", REASON.unreadable));
  if (!known || !provider) throw refused(row("denied", REASON.unknown));
  if (known.revoked) throw refused(row("denied", REASON.revoked));
  if (!providers.has(provider) || !(known.mine || known.entry.source === "added")) {
    throw refused(row("denied", REASON.notGranted));
  }
  if (to.scheme !== "https") throw refused(row("denied", REASON.notHttps));
  if (!isOwn(provider, known.entry.hosts, to)) throw refused(row("denied", REASON.wrongHost));
  if (!travels(provider)) throw refused(row("denied", REASON.wrongPlace));
  if (known.secret === undefined) throw refused(row("error", REASON.notOpen));
  return { secret: known.secret, provider, signal: known.controller.signal };
}

/** A refusal, as the guest and the ledger get it. */
export function refused(row: CredentialSubstitution): CredentialDenied {
  const { provider, host, location, reason } = row;
  const what = provider === "unknown" ? "a credential" : `a credential of ${provider}`;
  return new CredentialDenied(
    `${what} in ${location} was not sent to ${host}: ${reason}`,
    [row],
    HINTS[reason ?? ""],
  );
}

function isOwn(provider: Provider, hosts: string[] | undefined, { host, port }: Destination): boolean {
  const name = plainHost(host);
  if (provider !== "mcp") return ownerOf(name) === provider;
  return hosts?.some((bound) => bound === name || bound === `${name}:${port}`) ?? false;
}
