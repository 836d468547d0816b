import { SbxError } from "./error.ts";
import type { SocketEnd, WebSocketClient } from "./websocket.ts";

/** Codes of an end: of the terminal, or by this client; the connection broke; a size was not valid. */
const ENDED = 1000, BROKE = 1006, INVALID = 1007;

/** Why a terminal ended, or was not opened. */
export function terminalError({ code, reason }: SocketEnd): SbxError {
  return code === BROKE
    ? new SbxError("service.gone", "the service went away while the terminal was open", {
      hint: "a program of its own was ended; the VM and its own terminal go on: open it again",
    })
    : new SbxError(
      code === INVALID ? "request.invalid" : "vm.terminal",
      reason || "the terminal was not opened",
    );
}

/** A terminal in a VM. Without a command it is the VM's own, which all clients share and which lives on. */
export class Pty implements AsyncIterable<Uint8Array>, AsyncDisposable {
  readonly #socket: WebSocketClient;

  constructor(socket: WebSocketClient) {
    this.#socket = socket;
  }

  /** How it ended, once its output was read. */
  get end(): SocketEnd | undefined {
    return this.#socket.end;
  }

  async write(input: string | Uint8Array): Promise<void> {
    await this.#socket.send(typeof input === "string" ? new TextEncoder().encode(input) : input);
  }

  /** Changes its size, 1 to 1000 each. */
  async resize(cols: number, rows: number): Promise<void> {
    await this.#socket.send(JSON.stringify({ cols, rows }));
  }

  /** Its output, to its end. @throws {SbxError} `service.gone`, `vm.terminal`: it ended otherwise */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const message of this.#socket) if (typeof message !== "string") yield message;
    if (this.end && this.end.code !== ENDED) throw terminalError(this.end);
  }

  /** Leaves the terminal; a program of its own ends. */
  close(): void {
    this.#socket.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await Promise.resolve();
  }
}
