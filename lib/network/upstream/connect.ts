/** Connects to upstreams: to the address that policy decided on, under the name that the guest used. */
import { SbxError } from "../../base/error/mod.ts";
import { BufferedConnection, type DeadlineWatch } from "../connection.ts";
import { closeQuietly } from "../../base/wire/mod.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { PinnedDestination, TcpConnector } from "./upstream.ts";

export interface ConnectOptions {
  watch: DeadlineWatch;
  /** `ms` for TCP and TLS together */
  timeoutMs: number;
  /** PEM; trusted in addition to the roots that this process was started with */
  caCerts: readonly string[];
  /** absent: connects directly */
  connectTcp?: TcpConnector;
  /** protocols to offer, in order of preference */
  alpn: string[];
  /** asks the server to begin TLS, in a protocol that begins without it; reads nothing beyond the answer */
  beginTls?(tcp: Deno.TcpConn): Promise<void>;
}

/**
 * Connects; for `https`, with a TLS handshake that verifies the certificate for the destination's host.
 *
 * @returns the connection, and the protocol that the upstream chose
 * @throws {SbxError} `upstream.failed`, `upstream.timeout`
 */
export async function connect(
  destination: PinnedDestination,
  { watch, timeoutMs, caCerts, connectTcp = connectDirectly, alpn, beginTls }: ConnectOptions,
): Promise<{ connection: BufferedConnection; protocol?: string }> {
  const { scheme, host, dial } = destination;
  const timeout = new AbortController();
  let conn: Deno.Conn | undefined;
  const deadline = watch.add(() => {
    timeout.abort();
    closeQuietly(conn);
  });
  deadline.set(timeoutMs);
  try {
    const { hostname, port, isOverride } = dial;
    const open = isOverride ? connectDirectly : connectTcp;
    const tcp = await open({ hostname, port, name: host }, timeout.signal);
    conn = tcp;
    tcp.setNoDelay(true);
    if (scheme !== "https") return { connection: new BufferedConnection(tcp, watch) };
    await beginTls?.(tcp);
    const tls = await Deno.startTls(tcp, { hostname: host, caCerts: [...caCerts], alpnProtocols: alpn });
    conn = tls;
    const { alpnProtocol } = await tls.handshake();
    return {
      connection: new BufferedConnection(tls, watch),
      ...(alpnProtocol !== null && { protocol: alpnProtocol }),
    };
  } catch (cause) {
    closeQuietly(conn);
    if (timeout.signal.aborted) throw timeoutError(destination, cause);
    if (cause instanceof UpgradeRefused) throw cause.reason;
    throw cause instanceof SbxError ? proxyError(destination, cause) : connectError(destination, cause);
  } finally {
    watch.remove(deadline);
  }
}

/** The server does not begin TLS. */
export class UpgradeRefused extends Error {
  constructor(readonly reason: SbxError) {
    super(reason.message);
  }
}

const connectDirectly: TcpConnector = ({ hostname, port }, signal) =>
  Deno.connect({ hostname, port, signal });

/** Hides the address of the host's proxy from the guest. */
function proxyError(destination: PinnedDestination, cause: SbxError): SbxError {
  return new SbxError(
    "upstream.failed",
    `${nameOf(destination)} cannot be reached through the proxy of this machine`,
    {
      cause,
      hint: "ask your user; sbx logs NAME has the answer of the proxy",
    },
  );
}

function timeoutError(destination: PinnedDestination, cause: unknown): SbxError {
  return new SbxError("upstream.timeout", `${nameOf(destination)} did not accept the connection in time`, {
    cause,
    hint: "check that it can be reached from this machine",
  });
}

function connectError(destination: PinnedDestination, cause: unknown): SbxError {
  const [fault, hint] = describeFault(cause);
  return new SbxError("upstream.failed", `${nameOf(destination)} ${fault}`, { cause, hint });
}

const UNTRUSTED =
  "to trust it, name a PEM file with its root certificate: sbx settings set network.extra_ca_file FILE, or corp.toml";

/** Predicate of the upstream for an error of connecting. */
function describeFault(cause: unknown): [fault: string, hint?: string] {
  if (cause instanceof Deno.errors.ConnectionRefused) return ["refused the connection"];
  if (cause instanceof Deno.errors.InvalidData) {
    const { message } = cause;
    if (/UnknownIssuer|CaUsedAsEndEntity/.test(message)) {
      return ["has a certificate of an untrusted authority", UNTRUSTED];
    }
    if (/Expired|expired/.test(message)) return ["has a certificate that has expired"];
    if (/NotValidYet|not valid yet/.test(message)) {
      return ["has a certificate that is not valid yet", "check the clock of this machine"];
    }
    if (/NotValidForName|not valid for name/.test(message)) return ["has a certificate for another name"];
    if (/certificate/.test(message)) return ["has a certificate that cannot be trusted"];
    return ["failed the TLS handshake"];
  }
  if (cause instanceof Deno.errors.ConnectionReset || cause instanceof Deno.errors.UnexpectedEof) {
    return ["dropped the connection"];
  }
  return ["cannot be reached", "check that this machine is connected to the network"];
}

/** Error of an exchange with an upstream, for the client; other errors unchanged. */
export function upstreamError(cause: unknown, destination: PinnedDestination): unknown {
  const name = nameOf(destination);
  if (cause instanceof MessageFault) {
    const message = `the response of ${name} cannot be read safely: ${cause.reason}`;
    return new SbxError("upstream.failed", message, { cause });
  }
  if (!(cause instanceof ConnectionLost)) return cause;
  const code = cause.timedOut ? "upstream.timeout" : "upstream.failed";
  return new SbxError(code, `${name} ${cause.why}`, {
    cause,
    hint: "the request may have taken effect all the same",
  });
}

/** Name of an upstream in messages. */
export function nameOf({ host, port, dial }: PinnedDestination): string {
  const address = dial.hostname === host ? "" : ` (at ${dial.hostname}:${dial.port})`;
  return `${host.includes(":") ? `[${host}]` : host}:${port}${address}`;
}
