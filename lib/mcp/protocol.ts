/**
 * The aggregator protocol: requests and answers, as lines of JSON over pipes
 * (docs/design/contracts/08-mcp.md §8).
 */
import { setImmediate } from "node:timers";
import { z } from "zod";
import { isDeeper, parseJson } from "../base/json/mod.ts";
import { joinBytes } from "../base/bytes/mod.ts";
import { DEPTH_MAX, LINE_BYTES_MAX, LINE_DEPTH_MAX, PART_CHARS, RESULT_BYTES_MAX } from "./limit.ts";

const CursorParams = z.strictObject({
  /** index of the first entry of a page; without it the whole list has to fit on one line */
  cursor: z.int().min(0).optional(),
}).nullish();
const NameParams = z.strictObject({
  name: z.string(),
  arguments: z.record(z.string(), z.unknown()).nullish(),
});

/** Parameters of the specification's nine methods, then of the methods that sbx adds. */
export const PARAMS = {
  list_servers: CursorParams,
  list_tools: CursorParams,
  list_resources: CursorParams,
  list_prompts: CursorParams,
  call_tool: NameParams,
  read_resource: z.strictObject({ uri: z.string() }),
  get_prompt: NameParams,
  refresh: z.strictObject({ servers: z.array(z.unknown()) }),
  shutdown: z.unknown(),
  list_templates: CursorParams,
  complete: z.strictObject({
    /** namespaced name of a prompt, or namespaced URI template */
    ref: z.strictObject({ type: z.enum(["ref/prompt", "ref/resource"]), name: z.string() }),
    argument: z.strictObject({ name: z.string(), value: z.string() }),
    context: z.record(z.string(), z.unknown()).optional(),
  }),
  await_server: z.strictObject({ name: z.string() }),
  subscribe: z.strictObject({ uri: z.string() }),
  unsubscribe: z.strictObject({ uri: z.string() }),
};
export type Method = keyof typeof PARAMS;

/** A well-formed request line. */
export interface RequestLine {
  /** unsigned integer */
  id: number;
  method: string;
  params: unknown;
  /** the parent takes an answer that is longer than a line in parts */
  parts: boolean;
}

/** A part of an answer's line. The texts of all parts of an id, in their order, are the line. */
export const AnswerPart = z.strictObject({
  id: z.int().min(0),
  /** place among the parts, from 0 on */
  part: z.int().min(0),
  text: z.string(),
  /** true: the last one */
  last: z.boolean(),
});
export type AnswerPart = z.output<typeof AnswerPart>;

/** Reads a request line. @returns `undefined` when it is malformed; without an id it cannot be answered */
export function readRequest(line: string): RequestLine | undefined {
  try {
    const { id, method, params, parts } = valueOf(line) as RequestLine;
    if (Number.isSafeInteger(id) && id >= 0 && typeof method === "string") {
      return { id, method, params, parts: parts === true };
    }
  } catch {
    // malformed
  }
}

export function isMethod(method: string): method is Method {
  return Object.hasOwn(PARAMS, method);
}

// Lines of JSON over a pipe, in both directions.

interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}
interface ByteSink {
  write(bytes: Uint8Array): Promise<unknown>;
}

/** A line, or the reason why it cannot be read. */
type Line = { text: string } | { problem: string };

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/** Yields each line. A line that is too long or not UTF-8 is skipped to its end and yielded as a problem. */
export async function* readLines(source: ByteSource, max = LINE_BYTES_MAX): AsyncGenerator<Line> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const finish = (): Line => {
    const bytes = joinBytes(chunks);
    const problem = size > max && `line of ${size} bytes exceeds the limit of ${max} bytes`;
    chunks = [];
    size = 0;
    if (problem) return { problem };
    try {
      return { text: decoder.decode(bytes) };
    } catch {
      return { problem: "line is not valid UTF-8" };
    }
  };
  const append = (bytes: Uint8Array<ArrayBuffer>) => {
    size += bytes.length;
    // Only the size of an overlong line is kept.
    if (size <= max) chunks.push(bytes);
    else chunks = [];
  };
  const buffer = new Uint8Array(CHUNK);
  for (let read = await source.read(buffer); read !== null; read = await source.read(buffer)) {
    let start = 0;
    for (let end = buffer.indexOf(NEWLINE); end >= 0 && end < read; end = buffer.indexOf(NEWLINE, start)) {
      append(buffer.subarray(start, end));
      yield finish();
      start = end + 1;
    }
    if (start < read) append(buffer.slice(start, read));
  }
  if (size > 0) yield { problem: `input ended inside a line, after ${size} bytes` };
}

/** Writes lines in order; lines that wait for the pipe are written in one piece. */
export class LineWriter {
  #sink: ByteSink;
  #encoder = new TextEncoder();
  #waiting: string[] = [];
  #writing?: Promise<void>;
  #failed = false;

  constructor(sink: ByteSink) {
    this.#sink = sink;
  }

  /** Queues a line, without its newline. Lines after a broken pipe are dropped. */
  write(line: string): void {
    if (this.#failed) return;
    this.#waiting.push(line);
    this.#writing ??= this.#drain();
  }

  /** Settles when all queued lines are in the pipe, or the pipe is broken. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  async #drain(): Promise<void> {
    // Batches the lines of one turn of the event loop.
    await new Promise<void>((resolve) => setImmediate(resolve));
    try {
      while (this.#waiting.length > 0) {
        const text = this.#waiting.join("\n") + "\n";
        this.#waiting = [];
        const bytes = this.#encoder.encode(text);
        for (let at = 0; at < bytes.length;) {
          const written = await this.#sink.write(bytes.subarray(at));
          at += typeof written === "number" ? written : bytes.length - at;
        }
      }
    } catch {
      this.#failed = true;
      this.#waiting = [];
    }
    this.#writing = undefined;
  }
}

/** The value of a line of the protocol. @returns `undefined` when it is malformed, or nested too deep */
export function valueOf(text: string): unknown {
  try {
    return parseJson(text, LINE_DEPTH_MAX);
  } catch {
    return undefined;
  }
}

/** Tests whether a line fits the protocol; a short line is not measured. */
export function fitsLine(text: string, max = LINE_BYTES_MAX): boolean {
  return text.length * 3 <= max || (text.length <= max && byteLength(text) <= max);
}

/** UTF-8 length of a text in `bytes`. */
export function byteLength(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    // Each half of a surrogate pair counts two, four together.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}

// Answer lines (docs/design/contracts/08-mcp.md §8, "Aggregator errors").

/**
 * Answer with a result, or a JSON-RPC error when the result cannot be serialized.
 *
 * @param parts an answer longer than a line is returned whole, for {@linkcode partLines}
 */
export function resultLine(id: number, result: unknown, parts = false): string {
  let line: string;
  try {
    line = JSON.stringify({ id, result });
  } catch {
    return serializationError(id, "the result cannot be serialized as JSON");
  }
  if (isDeeper(line, DEPTH_MAX)) {
    return serializationError(id, `the result is nested deeper than ${DEPTH_MAX} levels`);
  }
  return fitLine(id, line, parts ? RESULT_BYTES_MAX : LINE_BYTES_MAX);
}

/** Replaces a line that is too long by an error. */
export function fitLine(id: number, line: string, max = LINE_BYTES_MAX): string {
  if (fitsLine(line, max)) return line;
  const size = `${byteLength(line)} bytes, and at most ${max} can be passed on`;
  return errorLine(
    id,
    `the result has ${size}: ask the server for less, or let it return a link to a resource`,
  );
}

/** Lines for an answer, each within the limit of a line. */
export function partLines(id: number, line: string): string[] {
  if (fitsLine(line)) return [line];
  const lines: string[] = [];
  for (let at = 0; at < line.length; at += PART_CHARS) {
    const text = line.slice(at, at + PART_CHARS);
    const part: AnswerPart = { id, part: lines.length, text, last: at + PART_CHARS >= line.length };
    lines.push(JSON.stringify(part));
  }
  return lines;
}

export function errorLine(id: number, error: string): string {
  return JSON.stringify({ id, error });
}

function serializationError(id: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message } });
}
