/** Requests of servers to their client, answered by the parent. */
import { isObject } from "../../base/object/mod.ts";
import type { RequestAnswerer, ServerRequest } from "../entry.ts";
import { QUESTIONS_MAX } from "../limit.ts";
import { type Frame, FrameKind, type FrameWire } from "./frame.ts";

const METHODS = ["elicitation/create", "sampling/createMessage"];

export class Questions {
  readonly #answerer: RequestAnswerer;
  readonly #pending = new Map<number, AbortController>();

  constructor(answerer: RequestAnswerer) {
    this.#answerer = answerer;
  }

  /** Handles a `Request` or `Withdraw` frame. @returns false when it breaks the protocol */
  receive(wire: FrameWire, { kind, id, payload }: Frame): boolean {
    if (kind === FrameKind.Withdraw) {
      this.#pending.get(id)?.abort(new Error("the server withdrew the request"));
      return true;
    }
    const request = readRequest(payload);
    if (!request || this.#pending.has(id)) return false;
    this.#answer(wire, id, request);
    return true;
  }

  /** Ends every request. */
  close(): void {
    for (const abort of this.#pending.values()) abort.abort(new Error("the connection was closed"));
  }

  async #answer(wire: FrameWire, id: number, request: ServerRequest): Promise<void> {
    const send = (answer: object) => wire.send(FrameKind.Answer, id, JSON.stringify(answer));
    if (this.#pending.size >= QUESTIONS_MAX) {
      return send({ error: `${QUESTIONS_MAX} requests of servers are waiting, the limit` });
    }
    const abort = new AbortController();
    this.#pending.set(id, abort);
    try {
      send({ result: await this.#answerer(request, abort.signal) });
    } catch (error) {
      send({ error: (error as Error).message });
    } finally {
      this.#pending.delete(id);
    }
  }
}

function readRequest(payload: Uint8Array): ServerRequest | undefined {
  try {
    const { server, method, params } = JSON.parse(new TextDecoder().decode(payload));
    const isRequest = typeof server === "string" && METHODS.includes(method) && isObject(params);
    return isRequest ? { server, method, params } : undefined;
  } catch {
    return undefined;
  }
}
