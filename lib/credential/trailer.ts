/** Trailers of a request without secrets (docs/design/contracts/09-credentials.md §9). */
import { plainHost } from "../base/address/mod.ts";
import type { CredentialSubstitution } from "../event/mod.ts";
import type { Substituted } from "../network/interface/mod.ts";
import type { Header } from "../network/mod.ts";
import { placeIn } from "./decoy.ts";
import { decoyUsed, REASON } from "./grant.ts";
import type { Vault } from "./vault.ts";

/** Leaves out trailers with a secret or a ref. @throws {CredentialDenied} one has a decoy */
export function cleanTrailers(vault: Vault, host: string, trailers: readonly Header[]): Substituted {
  const substitutions: CredentialSubstitution[] = [];
  const headers = trailers.filter(([name, value]) => {
    if (!vault.isUnclean(name) && !vault.isUnclean(value)) return true;
    for (const { ref, text, coding } of vault.finder.find(`${name}\n${value}`)) {
      if (ref !== undefined && vault.isDecoy(ref)) {
        throw decoyUsed(vault, ref, plainHost(host), placeIn("trailer", coding));
      }
      const provider = ref === undefined ? vault.shaped(text) : vault.get(ref)?.entry.provider;
      substitutions.push({
        provider: provider ?? "unknown",
        credential_ref: ref ?? vault.refOf(provider!, text),
        host: plainHost(host),
        location: "trailer",
        outcome: "denied",
        reason: REASON.wrongPlace,
      });
    }
    return false;
  });
  return { headers, substitutions };
}
