/** The messages of a WebSocket in its event, where `network.websocket_messages` records them. */
import type { HttpEvent } from "../../event/mod.ts";
import type { CredentialPort } from "../interface/mod.ts";
import { SOCKET_MESSAGE_MAX, SOCKET_MESSAGES_MAX, SOCKET_RECORD_BYTES } from "../limit.ts";
import { recordBody } from "../message/text.ts";
import type { DataPiece, SocketChannel } from "../websocket/mod.ts";
import type { BufferBudget } from "./body_buffer.ts";

type HttpResponse = NonNullable<HttpEvent["response"]>;
type RecordedMessage = NonNullable<HttpResponse["messages"]>[number];
type From = RecordedMessage["from"];

/** Text that a message of one side has, and its size. */
interface Open {
  isText: boolean;
  bytes: Uint8Array;
  held: number;
  size: number;
}

/**
 * Records messages in the order in which they ended, with refs in place of secrets: as the guest wrote them,
 * and as it got them. Messages without room are counted.
 */
export class SocketRecord {
  readonly #broker: CredentialPort;
  readonly #budget: BufferBudget;
  readonly #begun = performance.now();
  readonly #messages: Promise<RecordedMessage>[] = [];
  /** room for texts that is left, in `bytes` */
  #room = SOCKET_RECORD_BYTES;
  #missing = 0;
  /** messages whose ends have not come */
  readonly #open = new Map<From, Open>();

  private constructor(broker: CredentialPort, budget: BufferBudget) {
    this.#broker = broker;
    this.#budget = budget;
  }

  /** A record; `undefined` while other requests need its room, and the event has no messages then. */
  static begin(broker: CredentialPort, budget: BufferBudget): SocketRecord | undefined {
    return budget.takeSpare(SOCKET_RECORD_BYTES) ? new SocketRecord(broker, budget) : undefined;
  }

  /** Records what passes a channel. @param from side whose messages it takes */
  channel(from: From, channel: SocketChannel): SocketChannel {
    const add = (bytes: Uint8Array, { isText, isLast }: DataPiece) => {
      let open = this.#open.get(from);
      if (!open) {
        open = { isText, bytes: new Uint8Array(isText ? SOCKET_MESSAGE_MAX : 0), held: 0, size: 0 };
        this.#open.set(from, open);
      }
      const part = bytes.subarray(0, open.bytes.length - open.held);
      open.bytes.set(part, open.held);
      open.held += part.length;
      open.size += bytes.length;
      if (!isLast) return;
      this.#open.delete(from);
      this.#add(from, open);
    };
    return {
      take: async (piece) => {
        // A guest's ref is exchanged for its secret behind this point, in the same bytes.
        if (from === "guest") add(piece.bytes, piece);
        const passed = await channel.take(piece);
        if (from === "upstream" && passed) add(passed, piece);
        return passed;
      },
      takeReason: (reason) => channel.takeReason(reason),
    };
  }

  /** @param isWhole false: the WebSocket was over before the message */
  #add(from: From, { isText, bytes, held, size }: Open, isWhole = true): void {
    if (this.#messages.length === SOCKET_MESSAGES_MAX || held > this.#room) {
      this.#missing++;
      return;
    }
    this.#room -= held;
    const at_ms = Math.round(performance.now() - this.#begun);
    const scrub = (text: string, isCut?: boolean) => this.#broker.scrub(text, isCut);
    this.#messages.push(
      isText
        ? recordBody(bytes.slice(0, held), size, { content_type: "text/plain", scrub }, isWhole)
          .then(({ content_type: _, size: __, ...body }) => ({ at_ms, ...body, from, size }))
        : Promise.resolve({ at_ms, from, size, state: "binary", truncated: !isWhole }),
    );
  }

  /** Ends the record, and gives its room back. @returns the fields of the event's response */
  async end(): Promise<Pick<HttpResponse, "messages" | "messages_missing">> {
    this.#budget.bytes -= SOCKET_RECORD_BYTES;
    // A message without an end may have said everything.
    for (const [from, open] of this.#open) this.#add(from, open, false);
    const missing = this.#missing;
    return {
      messages: await Promise.all(this.#messages),
      ...(missing > 0 && { messages_missing: missing }),
    };
  }
}
