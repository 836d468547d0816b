/** Names the authority of a certificate that this machine does not trust. */
import { ignore, SbxError } from "../error/mod.ts";
import { timeLimit } from "../time/mod.ts";
import { closeQuietly } from "../wire/mod.ts";
import { hostNetwork } from "./current.ts";

/** Longest time for asking a server for its certificate again, in `ms`. */
const ASK_MS = timeLimit(10_000);
/** Most of an authority's name that is shown, in characters: the server may be anyone's. */
const NAME_MAX = 200;
const UNTRUSTED = /UnknownIssuer|CaUsedAsEndEntity/;

/** Things that this machine lacks, and how it gets them. */
export interface Untrusted {
  problem: string;
  hint: string;
}

/**
 * Explains a failed request, where the reason is the authority of the server's certificate: asks the server
 * for the certificate again, and sends it nothing.
 *
 * @returns undefined for another failure
 */
export async function untrustedIssuer(url: URL, error: unknown): Promise<Untrusted | undefined> {
  if (url.protocol !== "https:" || !UNTRUSTED.test(textOf(error))) return undefined;
  const issuer = await issuerOf(url).catch(ignore("the server ended the connection, or the proxy"));
  const by = issuer === undefined ? "" : ` "${issuer}"`;
  return {
    problem: `its certificate is signed by the authority${by}, which this machine does not trust`,
    hint: "if it is your company's, name a PEM file with its root certificate: network.extra_ca_file of " +
      "corp.toml, or sbx settings set network.extra_ca_file FILE",
  };
}

function textOf(error: unknown): string {
  const { message, cause } = error as Error;
  return `${message} ${cause instanceof Error ? cause.message : ""}`;
}

async function issuerOf(url: URL): Promise<string | undefined> {
  // Loaded for such a failure alone.
  const [{ connect }, { Duplex }] = await Promise.all([import("node:tls"), import("node:stream")]);
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  const conn = await (await hostNetwork()).connect(
    { hostname, port: Number(url.port || 443), name: hostname },
    AbortSignal.timeout(ASK_MS),
  );
  const ended = Promise.withResolvers<string | undefined>();
  const timer = setTimeout(
    () => ended.reject(new SbxError("upstream.timeout", "no certificate came")),
    ASK_MS,
  );
  try {
    // The same streams, by other types.
    const socket = Duplex.fromWeb(conn as unknown as Parameters<typeof Duplex.fromWeb>[0]);
    const servername = /^[\d.:]+$|:/.test(hostname) ? "" : hostname;
    const tls = connect({ socket, servername, rejectUnauthorized: false }, () => {
      const { CN, O } = (tls.getPeerCertificate().issuer ?? {}) as { CN?: unknown; O?: unknown };
      const name = [CN, O].filter((part) => typeof part === "string").join(", ");
      tls.destroy();
      // deno-lint-ignore no-control-regex -- what rewrites a terminal
      ended.resolve(name.replace(/[\x00-\x1f\x7f-\x9f"]/g, "").slice(0, NAME_MAX) || undefined);
    });
    tls.on("error", (error) => ended.reject(error));
    return await ended.promise;
  } finally {
    clearTimeout(timer);
    closeQuietly(conn);
  }
}
