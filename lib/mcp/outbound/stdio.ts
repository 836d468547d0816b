/**
 * Programs of stdio servers, which run in VMs: the aggregator reads the output of each,
 * and writes lines to its input.
 */
import { ANSWER_BYTES_MAX, PerMinute, PROGRAM_STARTS_PER_MINUTE } from "../limit.ts";
import { readLines } from "../protocol.ts";
import { OutboundRefusal } from "./frame.ts";

/** A stdio server's program that runs. */
export interface StdioProgram {
  /** reads its output. @returns null at the end */
  read(into: Uint8Array): Promise<number | null>;
  /** writes to its input */
  write(bytes: Uint8Array): Promise<void>;
  /** reason why it has ended; `undefined` while it runs */
  readonly end: string | undefined;
  close(): void;
}

/**
 * Starts the program of a server, and waits for the VM that it runs in.
 * @throws Error with a message that may be shown
 */
export type StdioStarter = (server: string, signal: AbortSignal) => Promise<StdioProgram>;

/**
 * URL of every stdio server: GET starts its program and reads its output, POST writes a line to its input.
 */
export const STDIO_URL = "stdio:";
/** Media type of a program's output: lines of JSON. */
export const STDIO_TYPE = "application/x-ndjson";

const NEWLINE = 10;

/** The programs of one aggregator, at most one a server. */
export class StdioPrograms {
  readonly #start: StdioStarter;
  readonly #running = new Map<string, StdioProgram>();
  readonly #starts = new Map<string, PerMinute>();

  /** @param start absent: stdio servers are refused */
  constructor(start: StdioStarter = refuse) {
    this.#start = start;
  }

  /**
   * Starts a server's program in place of the one that runs.
   *
   * @returns the lines of its output
   * @throws {OutboundRefusal} it cannot be started, or was started too often
   */
  async open(server: string, signal: AbortSignal): Promise<AsyncIterable<string>> {
    const starts = this.#starts.get(server) ?? new PerMinute(PROGRAM_STARTS_PER_MINUTE);
    this.#starts.set(server, starts);
    if (!starts.take()) {
      throw new OutboundRefusal(
        `its program was started ${PROGRAM_STARTS_PER_MINUTE} times within a minute, the limit; it is started again later`,
      );
    }
    this.#running.get(server)?.close();
    this.#running.delete(server);
    const program = await this.#start(server, signal).catch((error) => {
      throw new OutboundRefusal((error as Error).message);
    });
    if (signal.aborted) program.close();
    signal.throwIfAborted();
    // A newer start of the same server counts.
    this.#running.get(server)?.close();
    this.#running.set(server, program);
    signal.addEventListener("abort", () => program.close(), { once: true });
    return this.#lines(server, program);
  }

  /** Writes a line to the input of a server's program. @throws {OutboundRefusal} it does not run */
  async write(server: string, line: Uint8Array): Promise<void> {
    const program = this.#running.get(server);
    if (!program) throw new OutboundRefusal("its program is not running");
    if (line.includes(NEWLINE)) throw new OutboundRefusal("a message to a program must be one line");
    const bytes = new Uint8Array(line.length + 1);
    bytes.set(line);
    bytes[line.length] = NEWLINE;
    await program.write(bytes).catch(() => {
      throw new OutboundRefusal("its program does not read its input");
    });
  }

  async *#lines(server: string, program: StdioProgram): AsyncGenerator<string> {
    try {
      for await (const line of readLines(new BoundedOutput(program), ANSWER_BYTES_MAX)) {
        if ("text" in line) yield line.text;
        else {
          throw new OutboundRefusal(
            program.end ?? `its program wrote an unreadable line: ${line.problem}`,
          );
        }
      }
      throw new OutboundRefusal(program.end ?? "its program ended");
    } finally {
      program.close();
      if (this.#running.get(server) === program) this.#running.delete(server);
    }
  }
}

/** Output of a program, which fails within a line that is too long: its end may never come. */
class BoundedOutput {
  readonly #program: StdioProgram;
  /** bytes since the last newline */
  #open = 0;

  constructor(program: StdioProgram) {
    this.#program = program;
  }

  async read(into: Uint8Array): Promise<number | null> {
    const read = await this.#program.read(into);
    if (read === null) return null;
    const newline = into.subarray(0, read).lastIndexOf(NEWLINE);
    this.#open = newline < 0 ? this.#open + read : read - newline - 1;
    if (this.#open <= ANSWER_BYTES_MAX) return read;
    throw new OutboundRefusal(`its program wrote a line of more than ${ANSWER_BYTES_MAX} bytes`);
  }
}

function refuse(): Promise<never> {
  return Promise.reject(new Error("stdio servers need a VM of their own, which is not available here"));
}
