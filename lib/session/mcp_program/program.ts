import { asSbxError } from "../../base/error/mod.ts";
import { CallStream } from "../ipc/mod.ts";
import { type Program, RateWatch, type StdioProgram } from "../../mcp/mod.ts";
import { ConsoleLog } from "../console.ts";

/**
 * `bytes` kept of a program's standard error, since its latest start
 * (docs/design/contracts/14-limits.md §14).
 */
const LOG_BYTES_MAX = 1024 * 1024;
/** Characters of the end of its standard error that the reason of its end repeats. */
const LAST_WORDS_MAX = 200;
/** `bytes` of input in one frame. */
const INPUT_CHUNK = 256 * 1024;

/** A program in another VM, run by a call to the process of that VM: it passes that VM's policy as every program does. */
export class VmProgram implements StdioProgram {
  end: string | undefined;
  readonly #call: CallStream<"Exec">;
  readonly #log: ConsoleLog;
  readonly #decoder = new TextDecoder();
  /** of standard error; the rate of its output is the reader's */
  readonly #rate = new RateWatch();
  #lastWords = "";
  #rest: Uint8Array = new Uint8Array(0);
  #isClosed = false;

  private constructor(call: CallStream<"Exec">, log: ConsoleLog) {
    this.#call = call;
    this.#log = log;
  }

  /**
   * Starts the program.
   *
   * @param socket UDS of the process of its VM
   * @param log file for its standard error, emptied first
   * @throws {SbxError} `process.gone`: the VM has ended
   */
  static async open(socket: string, { argv, env }: Program, log: string): Promise<VmProgram> {
    const call = await CallStream.open(socket, { t: "Exec", argv, env, stdin: true });
    return new VmProgram(call, new ConsoleLog(log, LOG_BYTES_MAX));
  }

  async read(into: Uint8Array): Promise<number | null> {
    while (this.#rest.length === 0) {
      const output = await this.#next();
      if (output === null) return null;
      this.#rest = output;
    }
    const part = this.#rest.subarray(0, into.length);
    into.set(part);
    this.#rest = this.#rest.subarray(part.length);
    return part.length;
  }

  async write(bytes: Uint8Array): Promise<void> {
    const frames: Promise<void>[] = [];
    // Queued at once: lines of concurrent writers must not interleave.
    for (let at = 0; at < bytes.length; at += INPUT_CHUNK) {
      frames.push(this.#call.send({ t: "Data", data: bytes.subarray(at, at + INPUT_CHUNK).toBase64() }));
    }
    await Promise.all(frames);
  }

  /** Ends the program: its VM ends a program whose caller has gone. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#call.close();
    this.#log.close();
  }

  /** Output of the program, standard error being written to the log. @returns null at its end */
  async #next(): Promise<Uint8Array | null> {
    try {
      const reply = await this.#call.next();
      if (reply?.t === "Output") {
        const bytes = Uint8Array.fromBase64(reply.data);
        if (reply.stream === "stdout") return bytes;
        this.#keep(bytes);
        await this.#rate.chunk(bytes);
        return bytes.subarray(0, 0);
      }
      this.end = reply?.t === "Exited" ? this.#endOf(reply.exit_code) : "its VM ended";
    } catch (error) {
      const { code, message } = asSbxError(error, "running the program of an MCP server");
      this.end = code === "process.gone" ? "its VM ended" : message;
    }
    return null;
  }

  #endOf(exitCode: number): string {
    const words = this.#lastWords.trim();
    return `its program ended with exit code ${exitCode}${words ? `: ${words}` : ""}`;
  }

  #keep(bytes: Uint8Array): void {
    if (this.#isClosed) return;
    this.#log.write(bytes);
    this.#lastWords = (this.#lastWords + this.#decoder.decode(bytes, { stream: true })).slice(
      -LAST_WORDS_MAX,
    );
  }
}
