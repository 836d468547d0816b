/** The host's login at an SSH server: its key first, then the user's. */
import { SbxError } from "../../base/error/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { createHash } from "node:crypto";
import type { SshAccount, SshLogin } from "../interface/mod.ts";
import { ALGORITHMS, type Client, hostKeyAlgorithms, loadSsh2, type ParsedKey } from "./library.ts";
import type { SshStream } from "./stream.ts";

/** Longest login, in `ms`: a person may have to confirm, or touch a device. */
const LOGIN_MS = 90_000;

export interface UpstreamTarget {
  /** `host`, or `host:port` */
  name: string;
  account: SshAccount;
  login: SshLogin;
}

/**
 * Logs in. Nothing of the user is sent before the server has proved that it has a known key.
 *
 * @throws {SbxError} `ssh.host_key`, `ssh.login`, `ssh.agent`, `upstream.failed`
 */
export async function logIn(stream: SshStream, { name, account, login }: UpstreamTarget): Promise<Client> {
  const ssh2 = await loadSsh2();
  const key = ssh2.utils.parseKey(account.publicKey) as ParsedKey;
  const pinned = account.hostKeys.map((line) => {
    const [type, text] = line.split(" ");
    return { type, blob: Uint8Array.fromBase64(text) };
  });
  /** reason that the library's own error lacks */
  let fault: SbxError | undefined;
  class Signer extends ssh2.BaseAgent {
    getIdentities(done: (error: Error | null, keys?: ParsedKey[]) => void) {
      done(null, [key]);
    }

    sign(
      _: ParsedKey,
      data: Uint8Array,
      options: { hash?: string },
      done: (e: Error | null, s?: Uint8Array) => void,
    ) {
      const algorithm = key.type !== "ssh-rsa"
        ? key.type
        : options.hash === "sha1" || options.hash === undefined
        ? undefined
        : `rsa-sha2-${options.hash.slice(3)}`;
      if (algorithm === undefined) {
        fault = new SbxError("ssh.login", `${name} takes signatures with SHA-1 only, which are not made`, {
          hint: "use a key of Ed25519: ssh-keygen -t ed25519",
        });
        done(fault);
      } else {
        login.sign(data, algorithm).then(
          (signature) => done(null, signature),
          (error) => done(fault = error),
        );
      }
    }
  }
  const client = new ssh2.Client();
  const ready = Promise.withResolvers<void>();
  let hasKey = false;
  let tried = false;
  client.on("ready", () => ready.resolve());
  client.on("error", (error) => ready.reject(fault ?? loginError(name, error, hasKey)));
  client.on("close", () => ready.reject(fault ?? loginError(name, undefined, hasKey)));
  client.connect({
    sock: stream,
    ident: "sbx",
    username: account.user,
    readyTimeout: LOGIN_MS,
    algorithms: {
      ...ALGORITHMS,
      serverHostKey: [...new Set(pinned.flatMap(({ type }) => hostKeyAlgorithms(type)))],
    },
    hostVerifier: (blob: Uint8Array) => {
      hasKey = pinned.some((each) => isSame(each.blob, blob));
      if (!hasKey) fault = changedError(name, blob, pinned.map((each) => each.blob));
      return hasKey;
    },
    authHandler: (_: unknown, __: unknown, next: (method: unknown) => void) => {
      if (fault || tried) return next(false);
      tried = true;
      next({ type: "agent", username: account.user, agent: new Signer() });
    },
  });
  try {
    await ready.promise;
    return client;
  } catch (error) {
    client.destroy();
    stream.destroy();
    throw error;
  }
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

function changedError(name: string, blob: Uint8Array, pinned: readonly Uint8Array[]): SbxError {
  return new SbxError(
    "ssh.host_key",
    `${name} has another host key than its credential: ${fingerprint(blob)} in place of ${
      pinned.map(fingerprint).join(" or ")
    }; it got nothing`,
    {
      hint:
        "another machine may be in between; if its administrator has changed the key, revoke the credential and add it again",
    },
  );
}

function fingerprint(blob: Uint8Array): string {
  return `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`;
}

function loginError(
  name: string,
  error: (Error & { level?: string }) | undefined,
  hasKey: boolean,
): SbxError {
  if (error?.level === "client-authentication") {
    return new SbxError("ssh.login", `${name} does not accept the key of this machine's credential`, {
      cause: error,
      hint: "ask your user to add the public key there; sbx credentials list --json shows it",
    });
  }
  if (error?.level === "client-timeout") {
    return new SbxError("upstream.timeout", `${name} did not complete the login in time`, { cause: error });
  }
  if (/signature verification failed/i.test(error?.message ?? "")) {
    return new SbxError(
      "ssh.host_key",
      `${name} shows its host key and has not the private one; it got nothing`,
      {
        cause: error,
        hint: "another machine is in between: ask your user",
      },
    );
  }
  const known =
    /no matching (?:key exchange algorithm|host key format|C->S cipher|S->C cipher|C->S MAC|S->C MAC)/i;
  const [words] = known.exec(error?.message ?? "") ?? [];
  if (words !== undefined) {
    const what = /host key/i.test(words)
      ? "has no host key of a type in its credential"
      : "speaks old algorithms only";
    return new SbxError("upstream.failed", `${name} ${what} (${plain(words)})`, { cause: error });
  }
  const when = hasKey ? "during the login" : "before the login";
  return new SbxError("upstream.failed", `${name} ended the SSH connection ${when}`, { cause: error });
}
