/** What sbx itself answers a guest: refusals and errors, in the form that its client reads. */
import { guestErrorBody, type SbxError, statusOf } from "../../base/error/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { askCommandOf, type Decision, guestAnswer, guestRefusal } from "../../policy/mod.ts";
import type { Outlet } from "../exchange/context.ts";
import { grpcRefusal, isGrpc, timeoutOf } from "../exchange/grpc.ts";
import { NO_BYTES } from "../message/bytes.ts";
import { type Header, headerValue } from "../message/header.ts";

/** The client of a request, as far as its answers depend on it. */
export interface ReplyOptions {
  method: string;
  /** `ms` after which a client that waits for a person is answered */
  heldMs?: number;
  /** `accept` of the request: a client that wants text gets refusals as text */
  accept?: string;
  /** content type of a call of gRPC, whose client reads a status of its own */
  grpc?: string;
}

/**
 * Answers in the form of a call: none for a request that is no gRPC.
 * @param heldMs as in {@linkcode ReplyOptions}
 */
export function grpcReplies(headers: readonly Header[], heldMs: number): Partial<ReplyOptions> {
  if (!isGrpc(headers)) return { heldMs };
  const timeout = timeoutOf(headers);
  return {
    grpc: headerValue(headers, "content-type")!,
    // Its client gives up at its deadline, and would not see the answer.
    heldMs: timeout === undefined ? heldMs : Math.min(heldMs, timeout * DEADLINE_PART),
  };
}

/** Part of a deadline after which a client that waits for a person is answered. */
const DEADLINE_PART = 0.8;

/** Answers of sbx, in any HTTP version. */
export abstract class GuestReplies {
  blockReply?: Outlet["blockReply"];
  protected readonly replies: ReplyOptions;

  constructor(options: ReplyOptions) {
    this.replies = options;
  }

  abstract sendWhole(
    status: number,
    headers: readonly Header[],
    body: Uint8Array,
    declared?: string,
  ): Promise<void>;

  /** Git has no time-out, and does not try again. */
  get heldMs(): number | undefined {
    return this.blockReply ? undefined : this.replies.heldMs;
  }

  sendBlock(decision: Decision): Promise<void> {
    const reply = this.blockReply?.(decision);
    if (reply) return this.sendWhole(reply.status, reply.headers, reply.body);
    const ask = askCommandOf(decision);
    const refusal = { ...guestRefusal(decision), ...(ask !== undefined && { ask }) };
    // Clients try again after 503, and not after 403.
    const status = decision.answered?.open ? 503 : 403;
    const more: Header[] = refusal.retry_after === undefined
      ? []
      : [["retry-after", `${refusal.retry_after}`]];
    const { grpc } = this.replies;
    if (grpc !== undefined) {
      return this.sendWhole(200, grpcRefusal(status, plain(guestAnswer(decision)), grpc), NO_BYTES);
    }
    if (!wantsText(this.replies.accept)) return this.sendJson(status, refusal, more);
    const body = new TextEncoder().encode(`sbx: ${plain(guestAnswer(decision))}\n`);
    return this.sendWhole(status, [["content-type", "text/plain; charset=utf-8"], ...more], body);
  }

  sendError(error: SbxError): Promise<void> {
    const status = statusOf(error.code);
    const body = guestErrorBody(error);
    const { grpc } = this.replies;
    if (grpc === undefined) return this.sendJson(status, body);
    return this.sendWhole(200, grpcRefusal(status, plain(body.error), grpc), NO_BYTES);
  }

  /** Sends a response of sbx, as JSON. */
  sendJson(status: number, record: unknown, more: readonly Header[] = []): Promise<void> {
    const body = new TextEncoder().encode(JSON.stringify(record) + "\n");
    return this.sendWhole(status, [["content-type", "application/json"], ...more], body);
  }

  /** True for a response without a body. */
  protected isBodiless(status: number): boolean {
    return this.replies.method === "HEAD" || status === 204 || status === 304;
  }
}

/**
 * True for an `accept` that names a kind of text and no JSON, as that of browsers and fetchers of pages does.
 */
function wantsText(accept = ""): boolean {
  return /\btext\//i.test(accept) && !/json/i.test(accept);
}
