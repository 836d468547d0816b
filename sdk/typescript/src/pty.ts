import type { SocketEnd, WebSocketClient } from "./websocket.ts";

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

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const message of this.#socket) if (typeof message !== "string") yield message;
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
