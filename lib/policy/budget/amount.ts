/**
 * The amounts that budgets count, and the usage of one model call (docs/design/contracts/04-profiles.md §4,
 * "Budgets").
 */
import type { Event } from "../../event/mod.ts";

export const KINDS = ["usd", "tokens", "requests", "bytes_out", "minutes"] as const;
export type Kind = typeof KINDS[number];
export type Amounts = Record<Kind, number>;
/** What model calls use. */
export type CallAmounts = Pick<Amounts, "usd" | "tokens">;

export const noAmounts = (): Amounts => ({ usd: 0, tokens: 0, requests: 0, bytes_out: 0, minutes: 0 });

/** Kinds that an event of a type may use up; of other types, none. */
export const KINDS_OF: Partial<Record<Event["common"]["event_type"], readonly Kind[]>> = {
  "http.request": ["requests", "bytes_out", "minutes"],
  "dns.query": ["requests", "bytes_out"],
  "db.statement": ["minutes"],
  "model.call": ["usd", "tokens", "minutes"],
  "mcp.tool_call": ["minutes"],
};

/** Tokens of a call by price category, where known. */
export interface CallUsage {
  input?: number;
  output?: number;
}

/** Cost of a call in millionths of a US dollar; `undefined` for a model without a known price. */
export type Cost = (provider: string, model: string, usage: CallUsage) => number | undefined;

/** Most tokens of an answer whose request names no limit of its own. */
export const OUTPUT_MAX = 128_000;
/**
 * `bytes` of a DNS question beside its name: header, the name's first and last length,
 * type and class (RFC 1035 §4.1).
 */
export const DNS_BYTES = 18;

/** The usage of an event that is known before it is sent; nothing of a model call. */
export function exactAmounts({ http, dns }: Event): Partial<Amounts> {
  if (dns) return { requests: 1, bytes_out: utf8Length(dns.request.qname) + DNS_BYTES };
  return http ? { requests: 1, bytes_out: http.request.bytes } : {};
}

/** The most that a call can use. A model without a known price costs nothing here. */
export function mostOf(event: Event, bill: Bill, cost: Cost): CallAmounts {
  return sumOf(bill.parts, event.model!.request.provider, cost);
}

/** Bill of a call that was recorded without one. */
export function billOf(event: Event): Bill {
  const { model, body } = event.model!.request;
  return { parts: [{ model, input: body.size ?? 0, output: OUTPUT_MAX }], textual: true };
}

/**
 * The usage of a call, by its recorded response. Errs high: an answer that was not read to its end counts the
 * most that the call could use, and one that its provider did not count a token for each byte of its text.
 */
export function usedBy(event: Event, bill: Bill, response: unknown, use: CallUse, cost: Cost): CallAmounts {
  const { status, input_tokens, output_tokens, estimated_cost_micros } = (response ?? {}) as Partial<
    NonNullable<NonNullable<Event["model"]>["response"]>
  >;
  const { provider, model } = event.model!.request;
  const isRefused = status !== undefined && (status < 200 || status >= 300);
  if (use.unsent || isRefused || bill.parts.length === 0) return { tokens: 0, usd: 0 };
  if (status === undefined || use.pending) return mostOf(event, bill, cost);
  const most = bill.parts.reduce(added);
  const output = use.complete
    ? output_tokens ?? outputOf(bill, most, use)
    : Math.max(output_tokens ?? 0, most.output);
  const usage = { input: input_tokens ?? most.input, output };
  const isCounted = use.complete &&
    (output_tokens !== undefined || input_tokens !== undefined && most.output === 0);
  const micros = isCounted ? estimated_cost_micros : undefined;
  const price = bill.parts.length > 1 && !isCounted
    ? mostOf(event, bill, cost).usd * 1e6
    : cost(provider, model, usage) ?? 0;
  return { tokens: usage.input + usage.output, usd: (micros ?? price) / 1e6 };
}

/** Output of an answer that its provider did not count. */
function outputOf({ textual, named = Infinity }: Bill, most: BillPart, { text }: CallUse): number {
  return textual && text !== undefined ? Math.min(text, named) : most.output;
}

function added(a: BillPart, b: BillPart): BillPart {
  return { model: a.model, input: a.input + b.input, output: a.output + b.output };
}

function sumOf(parts: readonly BillPart[], provider: string, cost: Cost): CallAmounts {
  const amounts = { tokens: 0, usd: 0 };
  for (const { model, ...usage } of parts) {
    amounts.tokens += usage.input + usage.output;
    amounts.usd += (cost(provider, model, usage) ?? 0) / 1e6;
  }
  return amounts;
}

function utf8Length(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Most that the calls of one model in a request can use. */
export interface BillPart {
  model: string;
  /** tokens */
  input: number;
  /** tokens */
  output: number;
}

/** Most that a request can use, read from its whole body. */
export interface Bill {
  /** one for each model: several in a batch */
  parts: readonly BillPart[];
  /** most tokens of output by the limits that the request names itself; absent: it names none */
  named?: number;
  /** the length of the answer's text bounds its output where the provider does not count it */
  textual: boolean;
  /** answers that are asked for; absent: 1 */
  answers?: number;
  /** why the request cannot be counted, as a clause */
  fault?: string;
  /** why its tokens have no known price, as a clause */
  unpriced?: string;
}

/** The answer of a call, as the network saw it. */
export interface CallUse {
  /** nothing of the request was sent */
  unsent?: boolean;
  /** the answer was read to its end, and could be read */
  complete: boolean;
  /** `bytes` of text in the answer; absent: unknown */
  text?: number;
  /** key of an answer that can be fetched later: its host and its id */
  later?: string;
  /** the provider answers later, so nothing is counted yet */
  pending?: boolean;
}

/** Counts of a provider, for an answer that was fetched later. */
export interface LaterUse {
  /** as in {@linkcode CallUse.later} */
  key: string;
  input: number;
  output: number;
  /** answers that were counted: each item of a batch */
  answers: number;
}
