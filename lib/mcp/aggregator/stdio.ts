/** MCP's stdio transport, over the private wire: the program itself runs in a VM, and is started by the parent. */
// @ts-types="@modelcontextprotocol/sdk/shared/stdio"
import { ReadBuffer } from "@modelcontextprotocol/sdk/shared/stdio.js";
// @ts-types="@modelcontextprotocol/sdk/shared/transport"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { Buffer } from "node:buffer";
import type { ServerFetch } from "../outbound/mod.ts";
import { STDIO_URL } from "../outbound/stdio.ts";
import { RateWatch } from "../outbound/watch.ts";

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** rejects with the reason why the program ended, before `onclose` */
  readonly ended: Promise<never>;
  readonly #fetch: ServerFetch;
  readonly #abort = new AbortController();
  readonly #end = Promise.withResolvers<never>();
  #hasStarted = false;

  constructor(fetch: ServerFetch) {
    this.#fetch = fetch;
    this.ended = this.#end.promise;
    this.ended.catch(() => {});
  }

  /** reason to give when the server has not answered in time */
  get lateness(): string {
    return this.#hasStarted ? "the server did not answer in time" : "its VM is still starting";
  }

  async start(): Promise<void> {
    const { signal } = this.#abort;
    const { body } = await this.#fetch(STDIO_URL, { method: "GET", signal }, new RateWatch());
    this.#hasStarted = true;
    this.#read(body!);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.#fetch(STDIO_URL, { method: "POST", body: JSON.stringify(message) });
  }

  close(): Promise<void> {
    this.#abort.abort(new TypeError("the connection was closed"));
    return Promise.resolve();
  }

  async #read(output: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    try {
      const buffer = new ReadBuffer();
      for await (const chunk of output) {
        buffer.append(Buffer.from(chunk));
        while (this.#receive(buffer));
      }
      this.#end.reject(new TypeError("its program ended"));
    } catch (error) {
      this.#end.reject(error);
    }
    // After the waiters for the reason: `onclose` gives none.
    queueMicrotask(() => this.onclose?.());
  }

  /** @returns whether there was a whole line */
  #receive(buffer: ReadBuffer): boolean {
    let message: JSONRPCMessage | null = null;
    try {
      message = buffer.readMessage();
    } catch {
      this.onerror?.(new TypeError("its program wrote a line that is not MCP"));
      return true;
    }
    if (message) this.onmessage?.(message);
    return message !== null;
  }
}
