import { PseudoTerminal } from "../../../ffi/libc/pty.ts";
import { encodeFrame, writeAll } from "../../../lib/base/wire/mod.ts";
import { EXIT_CANNOT_RUN, type HostMessage, type TerminalAttach } from "../../../lib/guest/wire/mod.ts";
import type { Host } from "./host.ts";

type PtyOpen = Extract<HostMessage, { t: "PtyOpen" }>;
type PtyResize = Extract<HostMessage, { t: "PtyResize" }>;

const CHUNK = 16 * 1024;
const SHELL = ["/bin/bash", "--login"];

/** Shell script that opens `$1` as controlling terminal and all three streams, then becomes the program. */
const START = 'tty=$1; shift; exec setsid --ctty "$@" <>"$tty" >&0 2>&1';

/** Terminals opened by the host. */
export class Terminals {
  #host: Host;
  #open = new Map<number, PseudoTerminal>();

  constructor(host: Host) {
    this.#host = host;
  }

  async open({ id, argv = SHELL, cols, rows }: PtyOpen): Promise<void> {
    let exit_code = EXIT_CANNOT_RUN;
    try {
      const terminal = new PseudoTerminal();
      this.#open.set(id, terminal);
      terminal.resize(cols, rows);
      const child = new Deno.Command("/bin/sh", {
        args: ["-c", START, "sh", terminal.device, ...argv],
        cwd: "/workspace",
        env: { TERM: "xterm-256color", ...this.#host.environment },
        clearEnv: true,
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn();
      const connection = await this.#host.connect();
      await writeAll(connection, encodeFrame({ t: "Attach", id } satisfies TerminalAttach));
      const input = this.#input(connection, terminal).then(() => hangUp(child));
      exit_code = (await this.#output(connection, terminal, child)).code;
      connection.close();
      await input;
      terminal.close();
    } finally {
      this.#open.delete(id);
      await this.#host.send({ t: "PtyExited", id, exit_code });
    }
  }

  resize({ id, cols, rows }: PtyResize): void {
    this.#open.get(id)?.resize(cols, rows);
  }

  async #input(connection: Deno.Conn, terminal: PseudoTerminal): Promise<void> {
    const chunk = new Uint8Array(CHUNK);
    try {
      for (let read = await connection.read(chunk); read !== null; read = await connection.read(chunk)) {
        await writeAll(
          { write: (bytes) => terminal.write(bytes as Uint8Array<ArrayBuffer>) },
          chunk.subarray(0, read),
        );
      }
    } catch {
      // the host detached for good, or the program is gone
    }
  }

  async #output(
    connection: Deno.Conn,
    terminal: PseudoTerminal,
    child: Deno.ChildProcess,
  ): Promise<Deno.CommandStatus> {
    // A read fails while no program has the slave side open, also before the program opens it: only the
    // program's end is final.
    let ended = false;
    const status = child.status.finally(() => ended = true);
    const chunk = new Uint8Array(CHUNK);
    while (true) {
      const read = await terminal.read(chunk);
      if (read !== null) await writeAll(connection, chunk.subarray(0, read));
      else if (ended) return status;
      else await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

/** Sends a program SIGHUP, the signal of a closed window. */
function hangUp(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGHUP");
  } catch {
    // already ended
  }
}
