/** Terminals that the host opened in this guest. */
import { PseudoTerminal } from "../../../ffi/libc/pty.ts";
import { inheritNothing, type SpawnedProcess, spawnInTerminal } from "../../../ffi/libc/spawn.ts";
import { ignore } from "../../../lib/base/error/mod.ts";
import { encodeFrame, writeAll } from "../../../lib/base/wire/mod.ts";
import {
  EXIT_CANNOT_RUN,
  type HostMessage,
  PORTS,
  type TerminalAttach,
} from "../../../lib/machine/guest/wire/mod.ts";
import type { Host } from "./host.ts";
import { describeFailure, present } from "./program.ts";
import { asUser } from "./user.ts";

type PtyOpen = Extract<HostMessage, { t: "PtyOpen" }>;
type PtyResize = Extract<HostMessage, { t: "PtyResize" }>;

const CHUNK = 16 * 1024;
/** Time between SIGTERM and SIGKILL, in `ms`. */
const GRACE_MS = 2000;
/** Default directory of a program. */
const DEFAULT_CWD = "/workspace";
const SHELL = ["/bin/bash", "--login"];

/** A terminal, its connection to the host, and its end by the host. */
interface OpenTerminal {
  id: string;
  device: PseudoTerminal;
  /** absent until it is opened */
  connection?: Deno.Conn;
  child?: SpawnedProcess;
  /** its program has ended, and the pid may be another's */
  hasEnded?: true;
  /** resolves when the host closes the terminal; the connection's own end may get lost */
  closed: PromiseWithResolvers<void>;
}

/** Terminals opened by the host. */
export class Terminals {
  #host: Host;
  #open = new Map<string, OpenTerminal>();

  constructor(host: Host) {
    this.#host = host;
  }

  async open(request: PtyOpen): Promise<void> {
    const { id, cols, rows } = request;
    let exit_code = EXIT_CANNOT_RUN;
    let terminal: OpenTerminal | undefined;
    let device: PseudoTerminal | undefined;
    try {
      // Before anything that waits: the next message may resize or close it.
      device = new PseudoTerminal();
      terminal = { id, device, closed: Promise.withResolvers() };
      this.#open.set(id, terminal);
      device.resize(cols, rows);
      terminal.connection = await this.#attach(id);
      const child = terminal.child = this.#spawn(device, request);
      child.status.finally(() => {
        terminal!.hasEnded = true;
        // The kernel hangs the terminal up for its children, which may have it open for long.
        device!.leave();
      });
      this.#host.send({ t: "Running", id, pid: child.pid }).catch(ignore("a host that has left asks again"));
      exit_code = await this.#relay(terminal, child);
    } catch (cause) {
      const line = `sbx: cannot run ${(request.argv ?? SHELL)[0]}: ${describeFailure(cause)}\r\n`;
      await terminal?.connection?.write(new TextEncoder().encode(line)).catch(ignore("the host has left"));
    } finally {
      this.#open.delete(id);
      close(terminal?.connection);
      device?.close();
      await this.#host.away?.promise;
      await this.#host.send({ t: "PtyExited", id, exit_code });
    }
  }

  resize({ id, cols, rows }: PtyResize): void {
    this.#open.get(id)?.device.resize(cols, rows);
  }

  close(id: string): void {
    this.#open.get(id)?.closed.resolve();
  }

  /** Sends SIGHUP and SIGTERM to the program and its group, and SIGKILL after {@linkcode GRACE_MS}. */
  kill(id: string): void {
    const terminal = this.#open.get(id);
    if (!terminal?.child) return;
    // A stopped group gets its signals when it continues.
    for (const name of ["SIGHUP", "SIGTERM", "SIGCONT"] as const) signal(terminal, name);
    const killer = setTimeout(() => signal(terminal, "SIGKILL"), GRACE_MS);
    terminal.child.status.finally(() => clearTimeout(killer));
  }

  async #attach(id: string): Promise<Deno.Conn> {
    const connection = await this.#host.connect(PORTS.terminal);
    await writeAll(connection, encodeFrame({ t: "Attach", id } satisfies TerminalAttach));
    return connection;
  }

  /**
   * Copies both ways until the program ends or the host closes, which hangs the program up.
   * @returns its exit code
   */
  async #relay(terminal: OpenTerminal, child: SpawnedProcess): Promise<number> {
    const input = this.#relayInput(terminal).catch(ignore("the terminal is closed"));
    const gone = Promise.race([input, terminal.closed.promise]).then(() => signal(terminal, "SIGHUP"));
    await this.#relayOutput(terminal, child.status, gone);
    close(terminal.connection);
    const { code } = await child.status;
    // A write under way still uses the terminal's descriptor.
    await input;
    return code;
  }

  /** Copies the host's input until it detaches for good; one that left temporarily gets a new connection. */
  async #relayInput(terminal: OpenTerminal): Promise<void> {
    for (let visit = this.#host.visits;; visit = this.#host.visits) {
      await copyInput(terminal.connection!, terminal.device).catch(
        ignore("how a connection ends is seen below"),
      );
      // The end of a connection may be seen after its host has left, or has already come back.
      if (!this.#host.away && visit === this.#host.visits) return;
      await this.#host.away?.promise;
      terminal.connection = await this.#attach(terminal.id);
    }
  }

  /** Copies the terminal's output until its program ends. Once the host is `gone`, output is dropped. */
  async #relayOutput(
    terminal: OpenTerminal,
    status: Promise<unknown>,
    gone: Promise<void>,
  ): Promise<void> {
    // A read fails while no program has the slave side open, also before the program opens it: only the
    // program's end is final.
    let ended = false, isGone = false;
    status.finally(() => ended = true);
    gone.then(() => isGone = true);
    const chunk = new Uint8Array(CHUNK);
    while (true) {
      const read = await terminal.device.read(chunk);
      if (read !== null) {
        // A copy, since a write abandoned by `gone` continues.
        const written = isGone
          ? gone
          : this.#write(terminal, chunk.slice(0, read)).catch(ignore("a host that left gets what follows"));
        await Promise.race([written, gone]);
      } else if (ended) return;
      else await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Output while the host is away waits for it, and with it the program. */
  async #write(terminal: OpenTerminal, bytes: Uint8Array): Promise<void> {
    const { connection } = terminal;
    const visit = this.#host.visits;
    try {
      await writeAll(connection!, bytes);
    } catch (error) {
      if (!this.#host.away && visit === this.#host.visits) throw error;
      await this.#host.away?.promise;
      while (terminal.connection === connection) await new Promise((resolve) => setTimeout(resolve, 10));
      await writeAll(terminal.connection!, bytes);
    }
  }

  /** The host leaves for a while. Reads of its connections, which are reset, may not end on their own. */
  leave(): void {
    for (const { connection } of this.#open.values()) close(connection);
  }

  #spawn(
    { device }: PseudoTerminal,
    { argv = SHELL, cwd = DEFAULT_CWD, user, env }: PtyOpen,
  ): SpawnedProcess {
    inheritNothing();
    const as = asUser(user, this.#host.environment);
    if (as.user) Deno.chownSync(device, as.user.uid, null);
    const variables = { TERM: "xterm-256color", ...as.env, ...env };
    return spawnInTerminal({ argv: present(argv), cwd, ...as, env: variables }, device);
  }
}

/** Copies input until the connection ends; a terminal without a program takes none. */
async function copyInput(connection: Deno.Conn, terminal: PseudoTerminal): Promise<void> {
  const chunk = new Uint8Array(CHUNK);
  const to = { write: (bytes: Uint8Array) => terminal.write(bytes as Uint8Array<ArrayBuffer>) };
  for (let read = await connection.read(chunk); read !== null; read = await connection.read(chunk)) {
    await writeAll(to, chunk.subarray(0, read));
  }
}

function close(connection: Deno.Conn | undefined): void {
  try {
    connection?.close();
  } catch {
    // closed already
  }
}

/** Signals a program and its group, which it leads. */
function signal({ child, hasEnded }: OpenTerminal, name: Deno.Signal): void {
  if (!child || hasEnded) return;
  try {
    Deno.kill(-child.pid, name);
  } catch {
    // already ended
  }
}
