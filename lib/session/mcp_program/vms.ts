import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { McpNeed } from "../ipc/mod.ts";
import type { Program, StdioProgram } from "../../mcp/mod.ts";
import { VmProgram } from "./program.ts";

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
 * VMs of the programs of one session's stdio servers. The service starts them, as this process has neither settings nor
 * profiles; programs are then reached without the service, which may end and start again at any time.
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
    need.vm.promise.catch(() => {});
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
