/**
 * The host's end of a guest's network, for tests of the guest's end. A test serves its TCP connections (port
 * 5003), the real DnsService answers its DNS queries (port 5007).
 */
import { FrameChannel } from "../../lib/base/wire/mod.ts";
import type { DnsService } from "../../lib/network/dns/mod.ts";
import { type DnsFrame, type PacketRefusal, PORTS, type StreamOpen } from "../../lib/machine/guest/mod.ts";
import * as schema from "../../lib/machine/guest/schema.ts";
import { GuestStream } from "../../lib/session/network.ts";
import { vsockPath } from "../../lib/machine/vm/hypervisor.ts";

/** A connection of the guest. */
export interface GuestConnection {
  open: StreamOpen;
  stream: GuestStream;
}

export class GuestNet {
  readonly opened: StreamOpen[] = [];
  readonly queries: DnsFrame[] = [];
  /** packets refused by the guest's kernel */
  readonly refused: PacketRefusal[] = [];
  /** invalid frames (docs/design/contracts/07-guest-wire.md §7), and connections that broke unexpectedly */
  readonly problems: string[] = [];
  #closed = false;
  readonly #listeners: Deno.Listener[] = [];
  readonly #conns = new Set<FrameChannel>();
  readonly #streams = new Map<number, GuestStream>();
  /** ends received before their stream, by stream number */
  readonly #ends = new Map<number, number>();

  /** @param sockets folder of the VM's sockets @param serve serves a connection, and closes it */
  constructor(
    sockets: string,
    readonly dns: DnsService,
    readonly serve: (connection: GuestConnection) => Promise<void>,
  ) {
    this.#accept(vsockPath(sockets, PORTS.tcp), (channel, conn) => this.#tcp(channel, conn));
    this.#accept(vsockPath(sockets, PORTS.dns), (channel) => this.#dns(channel));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const listener of this.#listeners) listener.close();
    for (const channel of this.#conns) channel.close();
  }

  async #accept(
    path: string,
    serve: (channel: FrameChannel, conn: Deno.Conn) => Promise<void>,
  ): Promise<void> {
    const listener = Deno.listen({ transport: "unix", path });
    this.#listeners.push(listener);
    for await (const conn of listener) {
      const channel = new FrameChannel(conn);
      this.#conns.add(channel);
      serve(channel, conn).catch((error) => {
        if (!this.#closed) this.problems.push(`${path}: ${error}`);
      }).finally(() => {
        this.#conns.delete(channel);
        channel.close();
      });
    }
  }

  async #tcp(channel: FrameChannel, conn: Deno.Conn): Promise<void> {
    const first = await channel.next() as { t: string } | null;
    if (first?.t !== "Open") {
      for (let frame: unknown = first; frame !== null; frame = await channel.next()) {
        const note = schema.Note.parse(frame);
        if (note.t === "Refused") {
          this.refused.push(note);
          continue;
        }
        const { stream, bytes } = note;
        if (this.#streams.has(stream)) this.#streams.get(stream)!.end(bytes);
        else this.#ends.set(stream, bytes);
      }
      return;
    }
    const open: StreamOpen = schema.StreamOpen.parse(first);
    this.opened.push(open);
    const stream = new GuestStream(conn, channel.reader.rest());
    this.#streams.set(open.stream, stream);
    const end = this.#ends.get(open.stream);
    if (end !== undefined) stream.end(end);
    await this.serve({ open, stream }).finally(() => this.#streams.delete(open.stream));
  }

  async #dns(channel: FrameChannel): Promise<void> {
    for await (const frame of channel.reader) {
      const query: DnsFrame = schema.DnsFrame.parse(frame);
      this.queries.push(query);
      this.dns.answer(Uint8Array.fromBase64(query.raw), query).then((answer) =>
        channel.send({ ...query, raw: answer.toBase64() })
      ).catch(() => {});
    }
  }
}
