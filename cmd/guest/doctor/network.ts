/** Checks of the ways to the host. */
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { closeQuietly } from "../../../lib/base/wire/mod.ts";
import { McpClient } from "../../../lib/machine/guest/mcp/mod.ts";
import { GUEST_NETWORK } from "../../../lib/machine/guest/wire/mod.ts";
import { failed, ok, PROBE_ADDRESS, PROBE_NAME, PROBE_PORT, type Seen } from "./check.ts";

/** Time for an answer of the resolver, in `ms`: a rule may ask a person about the name first. */
const DNS_MS = timeLimit(5000);
const RCODES = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];
const FAILURES = ["FORMERR", "SERVFAIL", "NOTIMP", "REFUSED"];

/** TLS with Deno: whether the proxy leads to the host, and whether this program trusts what answers. */
export interface TlsSeen {
  proxy: Seen;
  trust: Seen;
}

/** Makes one TLS handshake through the proxy; nothing is requested, so no server is asked. */
export async function handshake(): Promise<TlsSeen> {
  const started = performance.now();
  let tcp: Deno.TcpConn;
  try {
    tcp = await Deno.connect({ hostname: PROBE_ADDRESS, port: PROBE_PORT });
  } catch (error) {
    return unreachable(`sbx-net-proxy takes no connections: ${(error as Error).message}`);
  }
  try {
    using tls = await Deno.startTls(tcp, { hostname: PROBE_NAME });
    await tls.handshake();
  } catch (error) {
    const { message } = error as Error;
    if (!/certificate|issuer/i.test(message)) return unreachable(`no TLS from the host: ${message}`);
    return { proxy: ok(answered(started)), trust: failed(message) };
  }
  return { proxy: ok(answered(started)), trust: ok("") };
}

const answered = (started: number) => `the host answered in ${Math.round(performance.now() - started)} ms`;

function unreachable(detail: string): TlsSeen {
  return { proxy: failed(detail), trust: { state: "skipped", detail: "the network proxy does not answer" } };
}

/** Looks up a reserved name with /etc/resolv.conf: any answer but a failure comes from a host resolver. */
export async function checkDns(): Promise<Seen> {
  const [, server] = /^\s*nameserver\s+(\S+)/m.exec(await Deno.readTextFile("/etc/resolv.conf")) ?? [];
  if (server === undefined) return failed("/etc/resolv.conf names no resolver");
  const other = server === GUEST_NETWORK.resolver ? "" : ` (/etc/resolv.conf names ${server})`;
  const socket = Deno.listenDatagram({ transport: "udp", hostname: "0.0.0.0", port: 0 });
  const timer = setTimeout(() => closeQuietly(socket), DNS_MS);
  try {
    await socket.send(query(PROBE_NAME), { transport: "udp", hostname: server, port: 53 });
    const [answer] = await socket.receive();
    const rcode = RCODES[answer[3] & 15] ?? `code ${answer[3] & 15}`;
    const detail = `${rcode} for ${PROBE_NAME}${other}`;
    return FAILURES.includes(rcode) ? failed(detail) : ok(detail);
  } catch {
    return failed(`no answer in ${DNS_MS / 1000} s${other}; a rule may ask about ${PROBE_NAME}: sbx asks`);
  } finally {
    clearTimeout(timer);
    closeQuietly(socket);
  }
}

/** A query of type A. */
function query(name: string): Uint8Array {
  const labels = name.split(".").flatMap((label) => [label.length, ...new TextEncoder().encode(label)]);
  return new Uint8Array([0x5b, 0x78, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...labels, 0, 0, 1, 0, 1]);
}

export async function checkMcp(): Promise<Seen> {
  const started = performance.now();
  using client = await McpClient.connect("sbx-doctor");
  await client.ping();
  return ok(answered(started));
}
