/** Connections to upstreams: to the address that policy looked at, under the name that the guest asked for. */
import { SbxError } from "../../base/error/mod.ts";
import { Connection } from "../connection.ts";
import { closeQuietly } from "../copy.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { Place } from "./upstream.ts";
import type { Watch } from "../watch.ts";

export interface ConnectOptions {
  watch: Watch;
  /** milliseconds for TCP and TLS together */
  timeoutMs: number;
  /** PEM; trusted beside the roots that this process was started with */
  caCerts: readonly string[];
  /** protocols to offer; `h2` first where HTTP/2 is wanted */
  alpn: string[];
}

/**
 * Connects, and for `https` does the TLS handshake, in which the certificate is verified for the place's name.
 *
 * @returns the connection, and the protocol that the upstream chose of those offered
 * @throws {SbxError} `upstream.failed`, `upstream.timeout`
 */
export async function connect(
  place: Place,
  { watch, timeoutMs, caCerts, alpn }: ConnectOptions,
): Promise<{ connection: Connection; protocol?: string }> {
  const { scheme, host, target } = place;
  const late = new AbortController();
  let open: Deno.Conn | undefined;
  const deadline = watch.add(() => {
    late.abort();
    if (open) closeQuietly(open);
  });
  deadline.set(timeoutMs);
  try {
    const tcp = await Deno.connect({ ...target, signal: late.signal });
    open = tcp;
    tcp.setNoDelay(true);
    if (scheme !== "https") return { connection: new Connection(tcp, watch) };
    const tls = await Deno.startTls(tcp, { hostname: host, caCerts: [...caCerts], alpnProtocols: alpn });
    open = tls;
    const { alpnProtocol } = await tls.handshake();
    return {
      connection: new Connection(tls, watch),
      ...(alpnProtocol !== null && { protocol: alpnProtocol }),
    };
  } catch (cause) {
    if (open) closeQuietly(open);
    throw late.signal.aborted ? tooSlow(place, cause) : refused(place, cause);
  } finally {
    watch.remove(deadline);
  }
}

function tooSlow(place: Place, cause: unknown): SbxError {
  return new SbxError("upstream.timeout", `${nameOf(place)} did not take the connection in time`, {
    cause,
    hint: "is it reachable from this machine?",
  });
}

function refused(place: Place, cause: unknown): SbxError {
  const [what, hint] = complaint(cause);
  return new SbxError("upstream.failed", `${nameOf(place)} ${what}`, { cause, hint });
}

const UNTRUSTED =
  "if it is right, name a PEM file with its root certificate: sbx settings set network.extra_ca_file FILE, or corp.toml";

function complaint(cause: unknown): [what: string, hint?: string] {
  if (cause instanceof Deno.errors.ConnectionRefused) return ["refused the connection"];
  if (cause instanceof Deno.errors.InvalidData) {
    const { message } = cause;
    if (/UnknownIssuer|CaUsedAsEndEntity/.test(message)) {
      return ["has a certificate that nobody trusted signed", UNTRUSTED];
    }
    if (/Expired|expired/.test(message)) return ["has a certificate that has expired"];
    if (/NotValidYet|not valid yet/.test(message)) {
      return ["has a certificate that is not valid yet; is the clock right?"];
    }
    if (/NotValidForName|not valid for name/.test(message)) return ["has a certificate for another name"];
    if (/certificate/.test(message)) return ["has a certificate that cannot be trusted"];
    return ["does not speak TLS as it should"];
  }
  if (cause instanceof Deno.errors.ConnectionReset || cause instanceof Deno.errors.UnexpectedEof) {
    return ["broke the connection off"];
  }
  return ["cannot be reached", "is this machine connected to the network?"];
}

/** What went wrong with an exchange, as its client is told. */
export function upstreamError(cause: unknown, place: Place): unknown {
  const name = nameOf(place);
  if (cause instanceof MessageFault) {
    const message = `the answer of ${name} cannot be read safely: ${cause.reason}`;
    return new SbxError("upstream.failed", message, { cause });
  }
  if (!(cause instanceof ConnectionLost)) return cause;
  const code = cause.timedOut ? "upstream.timeout" : "upstream.failed";
  return new SbxError(code, `${name} ${cause.why}`, { cause, hint: "the request may have been acted on" });
}

/** An upstream as messages name it. */
function nameOf({ host, port, target }: Place): string {
  const where = target.hostname === host ? "" : ` (at ${target.hostname}:${target.port})`;
  return `${host.includes(":") ? `[${host}]` : host}:${port}${where}`;
}
