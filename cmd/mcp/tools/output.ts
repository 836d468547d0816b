/** The output of a program, streamed by the service, as much of it as an agent can use. */
import { serverEvents } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

/** How a program ended. */
export interface Exit {
  exit_code: number;
  stdout: string;
  stderr: string;
  truncated: boolean;
  duration_ms: number;
  event_id: string;
}

/** Longest line of output that is shown as progress, in characters. */
const PROGRESS_MAX = 200;

/**
 * Follows the service's events of a program to its end.
 *
 * @param options.bytes kept of each stream: the first half and the last
 * @throws SbxError what the service says went wrong, or `process.gone` when the stream breaks off
 */
export async function follow(
  body: ReadableStream<Uint8Array>,
  { bytes, progress }: { bytes: number; progress(message: string): void },
): Promise<{ exit: Exit; booted?: unknown }> {
  const kept = { stdout: new Kept(bytes), stderr: new Kept(bytes) };
  let exit: Omit<Exit, "stdout" | "stderr"> | undefined;
  let booted: unknown;
  for await (const { event, data } of serverEvents(body)) {
    const value = JSON.parse(data);
    if (event === "stdout" || event === "stderr") {
      const chunk = Uint8Array.fromBase64(value.data);
      kept[event].add(chunk);
      const line = lastLine(chunk);
      if (line) progress(line);
    } else if (event === "exit") exit = value;
    else if (event === "booted") {
      booted = value;
      progress("the VM has booted");
    } else if (event === "error") throw new SbxError(value.code, value.error, { hint: value.hint });
  }
  if (!exit) {
    throw new SbxError("process.gone", "the connection ended before the program did", {
      hint: "`list` shows which VMs still run, and `logs` what happened in one",
    });
  }
  const truncated = exit.truncated || kept.stdout.cut || kept.stderr.cut;
  const [stdout, stderr] = [kept.stdout.text(), kept.stderr.text()];
  return { exit: { ...exit, stdout, stderr, truncated }, booted };
}

/** The last line of a piece of output that says something. */
function lastLine(chunk: Uint8Array): string {
  const text = new TextDecoder().decode(chunk.subarray(-4 * PROGRESS_MAX)).trimEnd();
  return text.slice(text.lastIndexOf("\n") + 1).slice(-PROGRESS_MAX);
}

/** The first and the last bytes of a stream. */
export class Kept {
  readonly #half: number;
  readonly #first: Uint8Array[] = [];
  #firstSize = 0;
  #last: Uint8Array[] = [];
  #lastSize = 0;
  #left = 0;

  constructor(bytes: number) {
    this.#half = bytes >> 1;
  }

  get cut(): boolean {
    return this.#left > 0;
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
    this.#left += bytes;
  }

  /** Bytes that are no UTF-8 are U+FFFD, a character that the cut went through too. */
  text(): string {
    if (!this.cut) return textOf([...this.#first, ...this.#last]);
    return `${textOf(this.#first)}\n… ${this.#left} bytes left out …\n${textOf(this.#last)}`;
  }
}

function textOf(chunks: Uint8Array[]): string {
  const decoder = new TextDecoder();
  return chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") + decoder.decode();
}
