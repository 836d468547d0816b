import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { plain } from "../base/print/mod.ts";
import type { FrameChannel } from "../base/wire/mod.ts";
import { type Ca, openCa } from "../network/ca/mod.ts";
import type { CredentialBroker, LoginPlace } from "../credential/mod.ts";
import { DnsService } from "../network/dns/mod.ts";
import type { CredentialSubstitution } from "../event/mod.ts";
import type { SessionGate } from "./gate/mod.ts";
import { DnsFrame, Note, type StreamBlocked, StreamOpen } from "../machine/guest/schema.ts";
import type { Send } from "../mcp/endpoint/mod.ts";
import type { CredentialResolver } from "../mcp/mod.ts";
import { ModelReader } from "../network/model/mod.ts";
import { CredentialDenied, NetProxy } from "../network/mod.ts";
import type { Contract } from "./files/contract.ts";
import { GuestStream } from "./guest_stream.ts";
import { readNetworkConfig } from "./network_config/mod.ts";
import { Refusals } from "./refusals.ts";

/** Most ends that arrived before their streams. */
const EARLY_ENDS_MAX = 4096;
/** Longest reason of a refused connection, in characters. */
const BLOCKED_MAX = 1024;
/** Most pending queries of one connection. */
const DNS_PENDING_MAX = 256;

/** The parts of a session that its network uses. */
export interface NetworkOptions {
  home: Home;
  contract: Contract;
  gate: SessionGate;
  broker: CredentialBroker;
}

/** The network of one session: TCP and DNS of its guest, and HTTP requests of the host for it. */
export class Network {
  readonly #gate: SessionGate;
  readonly #broker: CredentialBroker;
  readonly #dns: DnsService;
  readonly #proxy: NetProxy;
  readonly #streams = new Map<number, GuestStream>();
  /** the guest's last connection for notes */
  #notes?: FrameChannel;
  /** ends of streams that have not begun yet */
  readonly #earlyEnds = new Map<number, number>();
  readonly #refusals = new Refusals((refused, among) => {
    try {
      this.#proxy.refuseTransport(refused, among);
    } catch (error) {
      // The packet stays refused, and a failing ledger blocks everything else.
      report(error);
    }
  });

  private constructor(gate: SessionGate, broker: CredentialBroker, dns: DnsService, proxy: NetProxy) {
    this.#gate = gate;
    this.#broker = broker;
    this.#dns = dns;
    this.#proxy = proxy;
  }

  /** @throws {SbxError} `ca.*`, and errors of {@linkcode readNetworkConfig}: nothing leaves the guest then */
  static async open({ home, contract, gate, broker }: NetworkOptions): Promise<Network> {
    const [ca, { resolvers, overrides, caCerts, prices, host }] = await Promise.all([
      openCa(home) as Promise<Ca>,
      readNetworkConfig(contract.network),
    ]);
    const dns = new DnsService({ gate, resolvers, overrides });
    const proxy = new NetProxy({
      gate,
      ca,
      names: dns,
      broker,
      models: new ModelReader(() => prices),
      dialOverride: (host, port) => overrides.target(host, port),
      caCerts,
      connect: (target, signal) => host.connect(target, signal).catch(tellProxy),
    });
    return new Network(gate, broker, dns, proxy);
  }

  /**
   * Serves one connection to the TCP port (docs/design/contracts/07-guest-wire.md §7): a program's, or the
   * one for notes.
   */
  async serveTcp(channel: FrameChannel, conn: Deno.Conn): Promise<void> {
    const first = await channel.next();
    if (first === null) return;
    if ((first as { t?: unknown }).t !== "Open") return await this.#serveNotes(channel, first);
    const { t: _, stream: number, ...open } = StreamOpen.parse(first);
    const tell = (text: string) => this.#tellBlocked(number, text);
    const stream = new GuestStream(conn, channel.reader.rest(), tell);
    this.#streams.set(number, stream);
    const ended = this.#earlyEnds.get(number);
    if (ended !== undefined) stream.end(ended);
    this.#earlyEnds.delete(number);
    try {
      await this.#proxy.serve(stream, open, new Uint8Array());
    } finally {
      if (this.#streams.get(number) === stream) this.#streams.delete(number);
    }
  }

  /** Serves one connection to the DNS port; answers may overtake each other. */
  async serveDns(channel: FrameChannel): Promise<void> {
    let pending = 0;
    for (let frame = await channel.next(); frame !== null; frame = await channel.next()) {
      const { id, raw, proto, process_name } = DnsFrame.parse(frame);
      if (pending >= DNS_PENDING_MAX) continue;
      pending++;
      this.#dns.answer(Uint8Array.fromBase64(raw), { proto, process_name })
        .then((answer) => channel.send({ id, raw: answer.toBase64(), proto, process_name }))
        .catch(() => {})
        .finally(() => pending--);
    }
  }

  /** Sends a request of the host on the guest's path, under its rules. */
  readonly send: Send = async (request) => {
    return await this.#proxy.send({
      method: request.method,
      url: request.url,
      headers: Object.fromEntries(request.headers),
      body: new Uint8Array(await request.arrayBuffer()),
      signal: request.signal,
    });
  };

  /** Resolves the ref of a remote MCP server; the use is recorded. */
  readonly resolveCredential: CredentialResolver = (ref, url) => this.useCredential(ref, url);

  /** Gets a secret for a request of the host; the use is recorded. @returns `undefined` when it is refused */
  async useCredential(ref: string, url: URL, login?: LoginPlace): Promise<string | undefined> {
    try {
      const { secret, substitutions } = await this.#broker.use(ref, url, login);
      this.#record(substitutions);
      return secret;
    } catch (error) {
      if (!(error instanceof CredentialDenied)) throw error;
      this.#record(error.substitutions);
      return undefined;
    }
  }

  close(): void {
    this.#refusals.close();
    this.#proxy.close();
  }

  /** Notifies the guest of a blocked connection; without a connection for notes, it sees only the end. */
  async #tellBlocked(stream: number, text: string): Promise<void> {
    const frame: StreamBlocked = { t: "Blocked", stream, text: plain(text).slice(0, BLOCKED_MAX) };
    await this.#notes?.send(frame);
  }

  /** Serves the connection for notes: ends of programs' sides, and packets that the guest's kernel refused. */
  async #serveNotes(channel: FrameChannel, first: unknown): Promise<void> {
    this.#notes = channel;
    for (let frame: unknown = first; frame !== null; frame = await channel.next()) {
      const note = Note.parse(frame);
      if (note.t === "Refused") {
        this.#refusals.add(note);
        continue;
      }
      const { stream, bytes } = note;
      const open = this.#streams.get(stream);
      if (open) open.end(bytes);
      // The two connections race: the end of a short stream may arrive before its beginning.
      else if (stream !== 0 && this.#earlyEnds.size < EARLY_ENDS_MAX) this.#earlyEnds.set(stream, bytes);
    }
  }

  #record(substitutions: readonly CredentialSubstitution[]): void {
    for (const substitution of substitutions) {
      this.#gate.observe({
        common: { event_type: "credential.substitution", source_engine: "network", actor: "host" },
        credential: { substitution },
      });
    }
  }
}

let lastProxyFault = "";

/** Logs proxy faults that the guest does not see; a lasting fault is logged once. */
function tellProxy(error: unknown): never {
  if (error instanceof SbxError && error.message !== lastProxyFault) log.warn(lastProxyFault = error.message);
  throw error;
}

function report(error: unknown): void {
  log.error(asSbxError(error, "the network").message);
}
