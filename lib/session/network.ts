/** The network of a guest: its streams and refused packets. */
import { asSbxError, ignore, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { plain } from "../base/print/mod.ts";
import type { FrameChannel } from "../base/wire/mod.ts";
import { type Ca, openCa } from "../network/ca/mod.ts";
import { SharedCache } from "../cache/mod.ts";
import type { CredentialBroker, LoginPlace } from "../credential/mod.ts";
import { DnsService } from "../network/dns/mod.ts";
import type { CredentialSubstitution } from "../event/mod.ts";
import type { SessionGate } from "./gate/mod.ts";
import { DnsFrame, Note, type StreamBlocked, StreamOpen } from "../machine/guest/schema.ts";
import type { Send } from "../mcp/endpoint/mod.ts";
import type { CredentialResolver } from "../mcp/mod.ts";
import { ModelReader } from "../network/model/mod.ts";
import { type ByteStream, CredentialDenied, type NetOptions, NetProxy } from "../network/mod.ts";
import type { Contract } from "./files/contract.ts";
import { readNetworkConfig } from "./network_config/mod.ts";
import type { Rate } from "../machine/limit/mod.ts";
import type { PacketRefusal } from "../machine/guest/mod.ts";
import { join } from "node:path";
import { backgroundDelay, timeLimit } from "../base/time/mod.ts";

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
  /** that all its streams share */
  rate?: Rate;
  /** services of the active descriptors */
  grpcTypes?: NetOptions["grpcTypes"];
  /** false once corp has switched the shared cache off */
  mayCache?(): boolean;
}

/** The network of one session: TCP and DNS of its guest, and HTTP requests of the host for it. */
export class Network {
  readonly #gate: SessionGate;
  readonly #broker: CredentialBroker;
  readonly #dns: DnsService;
  readonly #proxy: NetProxy;
  readonly #rate: Rate | undefined;
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

  private constructor(
    { gate, broker, rate }: Pick<NetworkOptions, "gate" | "broker" | "rate">,
    dns: DnsService,
    proxy: NetProxy,
  ) {
    this.#rate = rate;
    this.#gate = gate;
    this.#broker = broker;
    this.#dns = dns;
    this.#proxy = proxy;
  }

  /** @throws {SbxError} `ca.*`, and errors of {@linkcode readNetworkConfig}: nothing leaves the guest then */
  static async open(
    { home, contract, gate, broker, rate, grpcTypes, mayCache }: NetworkOptions,
  ): Promise<Network> {
    const [ca, { resolvers, overrides, caCerts, prices, http2, recordsMessages, host }, cache] = await Promise
      .all([
        openCa(home) as Promise<Ca>,
        readNetworkConfig(contract.network),
        openCache(home, contract, mayCache),
      ]);
    const dns = new DnsService({
      gate,
      resolvers,
      overrides,
      hasMetadata: () => broker.servesMetadata("gcp"),
    });
    const proxy = new NetProxy({
      gate,
      ca,
      names: dns,
      broker,
      models: new ModelReader(() => prices),
      ...(cache && { cache }),
      dialOverride: (host, port) => overrides.target(host, port),
      caCerts,
      http2,
      recordsMessages,
      ...(grpcTypes && { grpcTypes }),
      connect: (target, signal) => host.connect(target, signal).catch(tellProxy),
    });
    return new Network({ gate, broker, rate }, dns, proxy);
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
    const stream = new GuestStream(conn, channel.reader.rest(), tell, this.#rate);
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

  /**
   * Serves one connection to the DNS port; answers may overtake each other.
   *
   * @param ready settles when the guest may be answered
   */
  async serveDns(channel: FrameChannel, ready: () => Promise<void>): Promise<void> {
    let pending = 0;
    for (let frame = await channel.next(); frame !== null; frame = await channel.next()) {
      const { id, raw, proto, process_name, container } = DnsFrame.parse(frame);
      if (pending >= DNS_PENDING_MAX) continue;
      pending++;
      await ready();
      this.#dns.answer(Uint8Array.fromBase64(raw), { proto, process_name, container })
        .then((answer) => channel.send({ id, raw: answer.toBase64(), proto, process_name }))
        .catch((error) => log.debug(`DNS of a guest: ${error}`))
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

  /** Uses no connection to an upstream again that was idle while the host slept. */
  renew(): void {
    this.#proxy.renew();
  }

  /** Ends every open connection of the guest. */
  cut(): void {
    for (const stream of this.#streams.values()) stream.close();
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

  /**
   * Serves the connection for notes: ends of programs' sides, and packets that the guest's kernel refused.
   */
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

/** Opens the cache of a contract; a store that cannot be trusted is not used. */
async function openCache(
  { cacheDir }: Pick<Home, "cacheDir">,
  { cache }: Pick<Contract, "cache">,
  isAllowed?: () => boolean,
): Promise<SharedCache | undefined> {
  if (!cache) return undefined;
  const { scope, registries, max_bytes } = cache;
  return await SharedCache.open({ dir: join(cacheDir, scope), registries, maxBytes: max_bytes, isAllowed })
    .catch(
      (error) => void log.warn(`without the shared cache: ${asSbxError(error, "opening the cache").message}`),
    );
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

/** Most destinations per second with an event each; one more event stands for the rest. */
export const REFUSALS_MAX = 32;
/** `ms` in which packets to the same destination are one event. */
const WINDOW_MS = 1000;

/** Folds the packets that a guest's kernel refused into a bounded number of events. */
class Refusals {
  readonly #record: (refused: PacketRefusal, among: number) => void;
  /** destinations with an event in this window */
  readonly #recorded = new Set<string>();
  /** the last packet without an event, and how many there are */
  #unrecorded?: { last: PacketRefusal; count: number };
  #window?: ReturnType<typeof setTimeout>;

  /** @param record makes the event of a packet that stands for `count` of them; never throws */
  constructor(record: (refused: PacketRefusal, among: number) => void) {
    this.#record = record;
  }

  add(refused: PacketRefusal): void {
    const { protocol, host_ip, port } = refused;
    const destination = `${protocol} ${host_ip} ${port}`;
    if (this.#recorded.has(destination)) return;
    this.#window ??= setTimeout(() => this.#end(), WINDOW_MS);
    if (this.#recorded.size >= REFUSALS_MAX) {
      this.#unrecorded = { last: refused, count: (this.#unrecorded?.count ?? 0) + 1 };
      return;
    }
    this.#recorded.add(destination);
    this.#record(refused, 1);
  }

  /** Records the packets that have no event yet. */
  close(): void {
    clearTimeout(this.#window);
    this.#end();
  }

  #end(): void {
    const unrecorded = this.#unrecorded;
    this.#recorded.clear();
    this.#window = this.#unrecorded = undefined;
    if (unrecorded) this.#record(unrecorded.last, unrecorded.count);
  }
}

/** `ms` in which a guest resets a refused connection. */
const REFUSE_MS = timeLimit(1000);

/**
 * One TCP connection of a guest's program, as sbx-net-proxy carries it. A vhost-user vsock loses half-closes,
 * so the end of the program's side comes on a connection of its own, with the number of bytes before it.
 */
export class GuestStream implements ByteStream {
  readonly #conn: Deno.Conn;
  #first: Uint8Array;
  #count = 0;
  #endsAt = Infinity;
  readonly #tell?: (line: string) => Promise<void>;
  readonly #rate?: Rate;
  /** ends the pending read */
  #endRead?: () => void;

  /**
   * @param first bytes that came with the frame that opened it
   * @param tell sends the guest the reason for a refusal; it closes the connection then
   * @param rate of its bytes in both directions
   */
  constructor(conn: Deno.Conn, first: Uint8Array, tell?: (line: string) => Promise<void>, rate?: Rate) {
    this.#rate = rate;
    this.#conn = conn;
    this.#first = first;
    this.#tell = tell;
  }

  /** @returns after the guest has closed the connection, or did not in time */
  async refuse(line: string): Promise<void> {
    if (!this.#tell) return;
    await this.#tell(line).catch(ignore("the guest closes the connection without the reason"));
    const into = new Uint8Array(4096);
    const gone = (async () => {
      while (await this.#conn.read(into) !== null);
    })().catch(() => backgroundDelay(REFUSE_MS));
    await Promise.race([gone, backgroundDelay(REFUSE_MS)]);
  }

  /** Ends the program's side after this many bytes. */
  end(bytes: number): void {
    this.#endsAt = bytes;
    if (this.#count >= bytes) this.#endRead?.();
  }

  /** @throws {Deno.errors.ConnectionReset} when the connection ends before the program's side did */
  async read(into: Uint8Array): Promise<number | null> {
    const read = await this.#read(into);
    if (read !== null) await this.#rate?.take(read);
    return read;
  }

  #read(into: Uint8Array): Promise<number | null> {
    if (this.#first.length > 0) {
      const chunk = this.#first.subarray(0, into.length);
      into.set(chunk);
      this.#first = this.#first.subarray(chunk.length);
      this.#count += chunk.length;
      return Promise.resolve(chunk.length);
    }
    if (this.#count >= this.#endsAt) return Promise.resolve(null);
    return new Promise((resolve, reject) => {
      this.#endRead = () => resolve(null);
      this.#conn.read(into).then((read) => {
        this.#endRead = undefined;
        if (read === null) {
          return reject(new Deno.errors.ConnectionReset("the guest reset the connection"));
        }
        this.#count += read;
        resolve(read);
      }, reject);
    });
  }

  async write(bytes: Uint8Array): Promise<number> {
    const written = await this.#conn.write(bytes);
    await this.#rate?.take(written);
    return written;
  }

  closeWrite(): Promise<void> {
    return this.#conn.closeWrite();
  }

  close(): void {
    this.#conn.close();
  }
}
