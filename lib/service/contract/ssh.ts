/**
 * SSH keys that a person adds, checked, and what guests get in their place
 * (docs/design/contracts/09-credentials.md §9, "SSH").
 */
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import type { CredentialAdd } from "../../client/api/mod.ts";
import type { SshTerms } from "../../credential/mod.ts";
import type { BootFile } from "../../machine/guest/wire/mod.ts";
import { openCa } from "../../network/ca/mod.ts";

const SSH_PORT = 22;

/** `host:port` of an SSH server. */
export function sshPlaceOf(host: string): string {
  return host.includes(":") ? host : `${host}:${SSH_PORT}`;
}

/**
 * Terms of an SSH key, from its request.
 *
 * @throws {SbxError} `credential.invalid`: the key, or one of a server, is of no type that is used
 */
export async function sshTerms({ host, secret, ssh, decoy, origin }: CredentialAdd): Promise<SshTerms> {
  // Loaded with the first key.
  const { isSshSecret, parsePublicKey, publicKeyOf } = await import("../../base/ssh/mod.ts");
  const invalid = (problem: string, hint: string) => new SbxError("credential.invalid", problem, { hint });
  if (!ssh || host === undefined) {
    throw invalid(
      "an SSH key needs its host, user and host keys",
      "sbx credentials add ssh --host HOST --key FILE",
    );
  }
  if (decoy || origin) {
    throw invalid("an SSH key is typed, or held by an agent", "leave out decoy and origin");
  }
  const { user, host_keys, agent, public_key } = ssh;
  if ((agent === undefined) !== (secret !== undefined)) {
    throw invalid(
      agent === undefined ? "the private key is missing" : "two keys",
      "give a secret, or an agent",
    );
  }
  for (const key of [...host_keys, ...public_key === undefined ? [] : [public_key]]) {
    if (!parsePublicKey(key)) {
      throw invalid(`"${key.slice(0, 40)}…" is not a public key that is used`, "use Ed25519");
    }
  }
  if (secret !== undefined && !isSshSecret(secret)) {
    throw invalid(
      "the secret is not a private key of Ed25519, ECDSA, or RSA from 2,048 bits",
      "give it as PKCS #8 in base64, as sbx credentials add ssh does",
    );
  }
  return {
    public_key: public_key ?? publicKeyOf(secret!).line,
    ...(agent !== undefined && { agent }),
    servers: [{ host: sshPlaceOf(host), user, host_keys: [...new Set(host_keys)] }],
  };
}

/**
 * File by which clients of a guest know the servers that the host logs in to.
 * @param places as `host:port`
 */
export async function knownHosts(home: Home, places: readonly string[]): Promise<BootFile[]> {
  if (places.length === 0) return [];
  const { guestHostKey } = await import("../../network/ssh/mod.ts");
  const { publicKey } = await guestHostKey(await openCa(home));
  const lines = places.map((place) => {
    const [host, port] = place.split(":");
    return `${Number(port) === SSH_PORT ? host : `[${host}]:${port}`} ${publicKey}\n`;
  });
  const content = new TextEncoder().encode(lines.join("")).toBase64();
  return [{ path: "/etc/ssh/ssh_known_hosts", content, mode: 0o644 }];
}
