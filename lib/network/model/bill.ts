/**
 * The most that a call can use, from its whole request (docs/guides/budgets.md); counting.json has the rules.
 */
import { type Bill, type BillPart, OUTPUT_MAX } from "../../policy/budget/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import COUNTING from "./counting.json" with { type: "json" };
import { type Json, objectOf, textOf } from "./json.ts";
import { JSON_DEPTH_MAX } from "./limit.ts";
import { toolsOf } from "./api.ts";

/** How one kind of call is counted, in counting.json. */
interface Kind {
  by: string;
  why?: string;
  text?: boolean;
  context?: boolean;
  unbound?: boolean;
  limits?: string[];
  extra?: string[];
  answers?: string[];
  lists?: string[];
  output?: number;
  items?: string[];
  item?: string[];
  as?: string;
  files?: string[];
}

/** Tokens of the longest context of a model: most input that a request can name by an id or an address. */
const CONTEXT_MAX = 2 * 1024 * 1024;
/** Most answers of one request: more are a mistake, or an attack on sums. */
const ANSWERS_MAX = 1_000_000;

const KINDS = COUNTING.kinds as Record<string, Kind>;
const REFERENCES = new Set(COUNTING.references);
const REFERENCE_OBJECTS = new Set(COUNTING.reference_objects);
const NOT_READ = new Set(COUNTING.not_read);
const ASKS_FOR_USAGE = new Set(COUNTING.asks_for_usage);
const LIST_TIERS = new Set(COUNTING.list_tiers);

/** A call to be counted. */
export interface Countable {
  family: string;
  operation: string;
  model: string;
  /** JSON of the whole body, or the fields of its form */
  body: Json;
  /** `bytes` of the body */
  size: number;
  /** service tiers by the request's headers */
  tiers?: readonly string[];
  /** why the body cannot be read whole and unambiguously */
  fault?: string;
}

/** Kind of a call in counting.json. */
export function kindOf({ family, operation }: Pick<Countable, "family" | "operation">): Kind {
  return KINDS[family === "other" ? operation : family] ?? KINDS.other;
}

/** Sums up the most that a request can use. */
export function billOf(call: Countable): Bill {
  const { body, size, model, fault } = call;
  const kind = kindOf(call);
  if (kind.by === "free") return { parts: [], textual: false };
  const whole = { model, input: size, output: OUTPUT_MAX };
  const refused = (why: string): Bill => ({ parts: [whole], textual: false, fault: why });
  if (kind.by === "refused") return refused(kind.why ?? "its answer has no counts");
  if (fault !== undefined) return refused(fault);
  if (kind.items) return batchBill(call, kind) ?? refused(FILE_FAULT);
  const { output, named } = outputOf(body, kind);
  const input = size + (kind.context || namesInput(body) ? CONTEXT_MAX : 0);
  const unpriced = unpricedOf(body, call.tiers);
  return {
    parts: [{ model, input, output }],
    textual: kind.text ?? false,
    ...(named !== undefined && { named }),
    ...(unpriced !== undefined && { unpriced }),
  };
}

/** True for a stream whose provider counts its tokens only when it is asked to. */
export function asksForUsage(provider: string, family: string, body: Json): boolean {
  return family === "openai.chat" && body.stream === true && ASKS_FOR_USAGE.has(provider) &&
    objectOf(body.stream_options).include_usage !== true;
}

/** Body that asks for the tokens of a stream. @param text a JSON object without repeated keys */
export function withUsage(text: string, body: Json): string {
  if ("stream_options" in body) {
    return JSON.stringify({
      ...body,
      stream_options: { ...objectOf(body.stream_options), include_usage: true },
    });
  }
  // The rest stays unchanged: its numbers may exceed JavaScript's precision.
  const start = text.indexOf("{") + 1;
  return `${text.slice(0, start)}"stream_options":{"include_usage":true},${text.slice(start)}`;
}

const FILE_FAULT = "it names its requests by a file, or not at all, so nothing here knows how many they are";

/** A batch whose requests are in its body; `undefined` for another. */
function batchBill({ body, size, model }: Countable, kind: Kind): Bill | undefined {
  if (kind.files?.some((key) => valueAt(body, key) !== undefined)) return undefined;
  const items = (kind.items ?? []).map((path) => valueAt(body, path)).find((list) => Array.isArray(list));
  if (!Array.isArray(items) || items.length === 0) return undefined;
  const each = KINDS[kind.as ?? "other"];
  const parts = new Map<string, BillPart>();
  let unpriced: string | undefined;
  for (const item of items.map(objectOf)) {
    const found = (kind.item ?? []).map((key) => item[key]).find(isObject);
    const request = objectOf(found ?? item);
    const name = textOf(request.model) || textOf(body.model) || model;
    const part = parts.get(name) ?? { model: name, input: 0, output: 0 };
    part.output += outputOf(request, each).output;
    if (namesInput(request)) part.input += CONTEXT_MAX;
    unpriced ??= unpricedOf(request);
    parts.set(name, part);
  }
  const list = [...parts.values()];
  // Each may be the long one.
  for (const part of list) part.input += size;
  return { parts: list, textual: false, answers: items.length, ...(unpriced !== undefined && { unpriced }) };
}

/** Most output of a request, and the limit that the request names. */
function outputOf(body: Json, kind: Kind): { output: number; named?: number } {
  if (kind.output !== undefined && !kind.limits) return { output: kind.output * answersOf(body, kind) };
  const values = (kind.limits ?? []).map((path) => valueAt(body, path)).filter((value) =>
    value !== undefined
  );
  const limits = values.filter(isCount);
  const isBound = limits.length > 0 && limits.length === values.length && !kind.unbound &&
    !isRespelled(body, kind.limits ?? []);
  const one = Math.max(...limits, ...(isBound ? [] : [OUTPUT_MAX]));
  const extra = (kind.extra ?? []).map((path) => valueAt(body, path)).filter(isCount);
  const output = (one + extra.reduce((sum, tokens) => sum + tokens, 0)) * answersOf(body, kind);
  return isBound ? { output, named: output } : { output };
}

/** True for a key in another case, which lenient servers take for the limit. */
function isRespelled(body: Json, limits: readonly string[]): boolean {
  return Object.keys(body).some((key) => !limits.includes(key) && limits.includes(key.toLowerCase()));
}

function answersOf(body: Json, kind: Kind): number {
  const counts = (kind.answers ?? []).map((path) => Number(valueAt(body, path))).filter((count) =>
    count >= 1
  );
  const lists = (kind.lists ?? []).map((path) => valueAt(body, path)).filter((list) => Array.isArray(list));
  // A list of numbers is one text, as tokens.
  const listed = lists.map((list) => list.some((item) => typeof item === "number") ? 1 : list.length);
  return Math.min(Math.max(1, ...counts) * Math.max(1, ...listed), ANSWERS_MAX);
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value > 0;
}

function valueAt(body: Json, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => objectOf(value)[key], body) ?? undefined;
}

/** Why the tokens of a request cost more than the table says. */
function unpricedOf(body: Json, tiers: readonly string[] = []): string | undefined {
  const { service_tier, speed } = body;
  const { type } = objectOf(body.serviceTier), { latency } = objectOf(body.performanceConfig);
  for (const tier of [service_tier, speed, type, latency, ...tiers]) {
    if (tier === undefined || tier === null || LIST_TIERS.has(String(tier))) continue;
    return `its service tier ${JSON.stringify(String(tier).slice(0, 40))} has prices of its own`;
  }
}

/**
 * True for a request whose input is more than its body: by an id or an address,
 * or from a tool of the provider.
 */
function namesInput(body: Json): boolean {
  return [body, objectOf(body.request)].some((part) => toolsOf(part).some(isServerTool)) ||
    // One that is stored at the provider; another is a text.
    isObject(body.prompt) ||
    hasReference(body, 0);
}

function isServerTool(tool: Json): boolean {
  const type = textOf(tool.type);
  return COUNTING.server_tools.some((name) => type.startsWith(name) || name in tool);
}

function hasReference(value: unknown, depth: number): boolean {
  if (depth > JSON_DEPTH_MAX) return true;
  if (Array.isArray(value)) return value.some((item) => hasReference(item, depth + 1));
  if (!isObject(value)) return false;
  if (value.type === "item_reference") return true;
  const isToolCall = /tool_use$/.test(textOf(value.type));
  for (const key in value) {
    const item = value[key];
    if (NOT_READ.has(key) || isToolCall && key === "input") continue;
    const isNamed = REFERENCES.has(key) &&
      (typeof item === "string"
        ? item !== "" && !item.startsWith("data:")
        : Array.isArray(item) && item.length > 0);
    if (isNamed || REFERENCE_OBJECTS.has(key) && item !== null && item !== undefined) return true;
    if (hasReference(item, depth + 1)) return true;
  }
  return false;
}
