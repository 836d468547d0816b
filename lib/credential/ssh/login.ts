/**
 * Accounts at SSH servers that a VM may use, and logins with their keys
 * (docs/design/contracts/09-credentials.md §9, "SSH").
 */
import { plainHost } from "../../base/address/mod.ts";
import type { SshAccount, SshLogin } from "../../network/interface/mod.ts";
import { grantSecret } from "../grant.ts";
import type { Credential, Vault } from "../vault.ts";

/** Accounts at a server, the latest first. @param place `host:port` */
export function sshAccountsAt(vault: Vault, place: string): SshAccount[] {
  vault.poll();
  return [...usable(vault)].toSorted((a, b) => b.entry.created_at.localeCompare(a.entry.created_at))
    .flatMap(({ entry: { ref, ssh, hosts } }) =>
      hosts?.includes(place)
        ? ssh!.servers.filter(({ host }) => host === place).map(({ user, host_keys }) => ({
          ref,
          user,
          publicKey: ssh!.public_key,
          hostKeys: host_keys,
        }))
        : []
    );
}

/** Servers that a VM may use, as `host:port`. */
export function sshPlaces(vault: Vault): string[] {
  return [...new Set([...usable(vault)].flatMap(({ entry }) => entry.ssh!.servers.map(({ host }) => host)))];
}

/** @throws {CredentialDenied} for a refused ref */
export function sshLogin(vault: Vault, ref: string, host: string, port: number): SshLogin {
  const to = { scheme: "https", host, port };
  const grant = () =>
    grantSecret(
      vault,
      ref,
      to,
      "signature",
      (provider, catalogue) => catalogue.find(provider)?.ssh !== undefined,
    );
  const { provider, signal } = grant();
  return {
    released: signal,
    substitution: {
      provider,
      credential_ref: ref,
      host: plainHost(host),
      location: "signature",
      outcome: "injected",
    },
    async sign(data, algorithm) {
      // It may have been revoked meanwhile.
      const { secret } = grant();
      const { agent, public_key } = vault.get(ref)!.entry.ssh!;
      // Loaded with the first login.
      if (agent !== undefined) {
        const { readPublicKey, signWithAgent } = await import("../../base/ssh/mod.ts");
        const { librarySignature } = await import("./key.ts");
        const plain = await signWithAgent(agent, readPublicKey(public_key), data, { algorithm });
        // An agent may ask its person first, for a minute.
        grant();
        return librarySignature(plain, algorithm);
      }
      const { signLogin } = await import("./key.ts");
      return signLogin(secret, data, algorithm);
    },
  };
}

function* usable(vault: Vault): Generator<Credential> {
  for (const credential of vault.active()) {
    const { provider, source, decoy, ssh } = credential.entry;
    if (ssh && source === "added" && !decoy && vault.mayUse(provider, false)) yield credential;
  }
}
