/**
 * Programs of stdio MCP servers, each in a VM of its own (docs/design/contracts/08-mcp.md §8, "Stdio
 * servers").
 */
import { asSbxError, ignore, SbxError } from "../base/error/mod.ts";
import { blake3 } from "../base/hash/mod.ts";
import type { McpNeed } from "./ipc/mod.ts";
import { type Program, RateWatch, type StdioProgram } from "../mcp/mod.ts";
import { CallStream } from "./ipc/mod.ts";
import { ConsoleLog } from "./machine.ts";

/** The service's reply to a need: a session, or the reason why there is no VM. */
export interface AssignedVm {
  session?: string;
  error?: string;
}

/** The surroundings of {@linkcode ProgramVms}. */
export interface ProgramVmsOptions {
  /** folder for the logs of the programs */
  logs: string;
  /** path of the UDS of a session's process */
  socketOf(session: string): string;
  /** reports all needs to the service; a repeated one is still open */
  tell(needs: McpNeed[]): void;
}

/** A server that needs a VM. */
interface Need extends McpNeed {
  vm: PromiseWithResolvers<string>;
}

/**
 * VMs of the programs of one session's stdio servers. The service starts them, as this process
 * has neither settings nor profiles; programs are then reached without the service, which may
 * end and start again at any time.
 */
export class ProgramVms {
  readonly #options: ProgramVmsOptions;
  readonly #needs = new Map<string, Need>();
  #programs: ReadonlyMap<string, Program> = new Map();

  constructor(options: ProgramVmsOptions) {
    this.#options = options;
  }

  /** Replaces the programs. A server with a changed program gets another VM; a removed server needs none. */
  use(programs: ReadonlyMap<string, Program>): void {
    this.#programs = programs;
    const outdated = [...this.#needs.values()].filter(({ server, program }) =>
      !programs.has(server) || hashOf(programs.get(server)!) !== program
    );
    for (const { server, vm } of outdated) {
      this.#needs.delete(server);
      vm.reject(new Error("its definition has changed"));
    }
    if (outdated.length > 0) this.#tell();
  }

  /**
   * Starts the program of a server in its VM, and waits for that VM first.
   *
   * @throws {Error} with the reason
   */
  async start(server: string, signal: AbortSignal): Promise<StdioProgram> {
    const program = this.#programs.get(server);
    if (!program) throw new Error("no enabled stdio server has this name");
    try {
      return await this.#open(server, program, signal);
    } catch (error) {
      if (!(error instanceof SbxError) || error.code !== "process.gone") throw error;
      // Its VM has ended: it gets another one, once.
      this.#needs.delete(server);
      return await this.#open(server, program, signal);
    }
  }

  /** Takes the service's reply. A reply to an outdated need is answered with the current needs. */
  assign({ server, program }: McpNeed, { session, error }: AssignedVm): void {
    const need = this.#needs.get(server);
    if (need?.program !== program) return this.#tell();
    if (session !== undefined) return need.vm.resolve(session);
    this.#needs.delete(server);
    need.vm.reject(new Error(`its VM did not start: ${error}`));
    this.#tell();
  }

  async #open(server: string, program: Program, signal: AbortSignal): Promise<StdioProgram> {
    const session = await this.#vmOf(server, program, signal);
    return await VmProgram.open(
      this.#options.socketOf(session),
      program,
      `${this.#options.logs}/mcp-${server}.log`,
    );
  }

  async #vmOf(server: string, program: Program, signal: AbortSignal): Promise<string> {
    const need = this.#needs.get(server) ??
      { server, program: hashOf(program), vm: Promise.withResolvers<string>() };
    need.vm.promise.catch(ignore("callers that wait for the VM have the failure"));
    this.#needs.set(server, need);
    this.#tell();
    const aborted = Promise.withResolvers<never>();
    const abort = () => aborted.reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    try {
      signal.throwIfAborted();
      return await Promise.race([need.vm.promise, aborted.promise]);
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  #tell(): void {
    this.#options.tell([...this.#needs.values()].map(({ server, program }) => ({ server, program })));
  }
}

function hashOf({ argv, env }: Program): string {
  return blake3(JSON.stringify([argv, env]));
}

/**
 * `bytes` kept of a program's standard error, since its latest start
 * (docs/design/contracts/14-limits.md §14).
 */
const LOG_BYTES_MAX = 1024 * 1024;
/** Characters of the end of its standard error that the reason of its end repeats. */
const LAST_WORDS_MAX = 200;
/** `bytes` of input in one frame. */
const INPUT_CHUNK = 256 * 1024;

/**
 * A program in another VM, run by a call to the process of that VM: it passes that
 * VM's policy as every program does.
 */
class VmProgram implements StdioProgram {
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
