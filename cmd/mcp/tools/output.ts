/** Output of a program, streamed by the service and limited to a size that an agent can use. */
import type { VmInfo } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { serverEvents } from "../../../lib/client/mod.ts";
import type { ListedEvent } from "./event.ts";

/** `bytes` of each stream in a result, by default and at most; more would fill the agent's context. */
export const OUTPUT_BYTES = 32 * 1024;
export const OUTPUT_BYTES_MAX = 128 * 1024;

/** Result of a program. */
export interface Exit {
  exit_code: number;
  stdout: string;
  stderr: string;
  truncated: boolean;
  duration_ms: number;
  event_id: string;
}

/** Characters of an output line reported as progress. */
const PROGRESS_MAX = 200;

export interface FollowOptions {
  /** `bytes` kept of each stream: half from its start, half from its end */
  bytes: number;
  progress(message: string): void;
  /** receives the VM of a run when it has booted */
  onBoot?(vm: VmInfo): void;
}

/**
 * Reads the service's events of a program until it ends.
 *
 * @returns its result, and for a run the events of the session
 * @throws {SbxError} the error of the service; `process.gone`: the stream was interrupted
 */
export async function follow(
  body: ReadableStream<Uint8Array>,
  { bytes, progress, onBoot }: FollowOptions,
): Promise<{ exit: Exit; events?: ListedEvent[] }> {
  const streams = { stdout: new HeadAndTail(bytes), stderr: new HeadAndTail(bytes) };
  let exit: Omit<Exit, "stdout" | "stderr"> | undefined;
  let events: ListedEvent[] | undefined;
  for await (const { event, data } of serverEvents(body)) {
    const value = JSON.parse(data);
    if (event === "stdout" || event === "stderr") {
      const chunk = Uint8Array.fromBase64(value.data);
      streams[event].add(chunk);
      const line = lastLine(chunk);
      if (line) progress(line);
    } else if (event === "exit") exit = value;
    else if (event === "booted") {
      onBoot?.(value);
      progress("the VM has booted");
    } else if (event === "events") events = value.events;
    else if (event === "error") throw new SbxError(value.code, value.error, { hint: value.hint });
  }
  if (!exit) {
    throw new SbxError("process.gone", "the connection ended before the program did", {
      hint: "`list` shows which VMs are running, `logs` shows a VM's logs",
    });
  }
  const truncated = exit.truncated || streams.stdout.isCut || streams.stderr.isCut;
  const [stdout, stderr] = [streams.stdout.text(), streams.stderr.text()];
  return { exit: { ...exit, stdout, stderr, truncated }, events };
}

/** The last line of a chunk that is not blank. */
function lastLine(chunk: Uint8Array): string {
  const text = new TextDecoder().decode(chunk.subarray(-4 * PROGRESS_MAX)).trimEnd();
  return text.slice(text.lastIndexOf("\n") + 1).slice(-PROGRESS_MAX);
}

/** The first and last bytes of a stream. */
export class HeadAndTail {
  readonly #half: number;
  readonly #first: Uint8Array[] = [];
  #firstSize = 0;
  #last: Uint8Array[] = [];
  #lastSize = 0;
  #omitted = 0;

  constructor(bytes: number) {
    this.#half = bytes >> 1;
  }

  get isCut(): boolean {
    return this.#omitted > 0;
  }

  add(chunk: Uint8Array): void {
    const head = chunk.subarray(0, this.#half - this.#firstSize);
    if (head.length > 0) this.#first.push(head);
    this.#firstSize += head.length;
    if (head.length === chunk.length) return;
    this.#last.push(chunk.subarray(head.length));
    this.#lastSize += chunk.length - head.length;
    while (this.#lastSize - this.#last[0].length >= this.#half) this.#drop(this.#last.shift()!.length);
    const over = this.#lastSize - this.#half;
    if (over <= 0) return;
    this.#last[0] = this.#last[0].subarray(over);
    this.#drop(over);
  }

  #drop(bytes: number): void {
    this.#lastSize -= bytes;
    this.#omitted += bytes;
  }

  /** The text; invalid UTF-8, and a character split by the cut, becomes U+FFFD. */
  text(): string {
    if (!this.isCut) return textOf([...this.#first, ...this.#last]);
    return `${textOf(this.#first)}\n… ${this.#omitted} bytes omitted …\n${textOf(this.#last)}`;
  }
}

function textOf(chunks: Uint8Array[]): string {
  const decoder = new TextDecoder();
  return chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") + decoder.decode();
}
