/** A program in a VM whose input and output go on while it runs. */
import type { PipedRequest, VmSummary } from "../../../lib/client/api/mod.ts";
import { type ErrorBody, SbxError } from "../../../lib/base/error/mod.ts";
import { PROGRAM_WINDOW, Window } from "../../../lib/base/window/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { type Exit, serverError } from "./program.ts";

/** First byte of a message with the program's standard error. */
const STDERR = 2;

/** A message in text from the service. */
interface News {
  taken?: number;
  resuming?: string;
  exit?: Exit;
  error?: ErrorBody;
}

/** Where a program's output goes. The program waits while it is not taken. */
export interface Output {
  stdout(bytes: Uint8Array): Promise<void>;
  stderr(bytes: Uint8Array): Promise<void>;
  /** the VM that is suspended comes back first; called before the output after it */
  resuming?(name: string): void;
}

/** Starts a program in a VM. @throws {SbxError} the VM is unknown, or the service does not answer */
export async function startPiped(
  client: Client,
  name: string,
  request: PipedRequest,
  output: Output,
): Promise<ProgramPipe> {
  // Reports errors that a rejected WebSocket would hide.
  await client.json<VmSummary>("GET", `/vms/${segment(name)}/status`);
  const socket = client.socket(`/program/${segment(name)}`);
  socket.binaryType = "arraybuffer";
  return new ProgramPipe(socket, request, output);
}

/** The connection to one program, which ends the program where it is closed. */
export class ProgramPipe {
  readonly #socket: WebSocket;
  readonly #output: Output;
  readonly #window = new Window(PROGRAM_WINDOW);
  readonly #open = Promise.withResolvers<void>();
  readonly #exit = Promise.withResolvers<Exit>();
  /** output is written in the order of its arrival */
  #written: Promise<void> = Promise.resolve();

  constructor(socket: WebSocket, request: PipedRequest, output: Output) {
    this.#socket = socket;
    this.#output = output;
    socket.onopen = () => {
      socket.send(JSON.stringify(request));
      this.#open.resolve();
    };
    socket.onmessage = ({ data }) => {
      const work = data instanceof ArrayBuffer ? () => this.#write(new Uint8Array(data)) : this.#hear(data);
      this.#written = this.#written.then(work);
      this.#written.catch((error) => this.#fail(error));
    };
    socket.onclose = () => void this.#written.then(() => this.#fail(lost()), () => {});
    socket.onerror = () => {};
  }

  /**
   * Settles when the program has ended and its output is written.
   *
   * @throws {SbxError} the service's error; `process.gone`: the connection was lost before the program ended
   */
  get exit(): Promise<Exit> {
    return this.#exit.promise;
  }

  /** Sends input until its end. Input that cannot be read ends the program. */
  async sendInput(input: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    await this.#open.promise;
    try {
      for await (const bytes of input) {
        if (!await this.#window.claim(bytes.length)) return;
        if (this.#socket.readyState !== WebSocket.OPEN) return;
        this.#socket.send(bytes);
      }
      this.#post({ end: true });
    } catch {
      this.#socket.close();
    }
  }

  /** Ends the program. */
  close(): void {
    this.#socket.close();
  }

  async #write(bytes: Uint8Array): Promise<void> {
    const output = bytes.subarray(1);
    await (bytes[0] === STDERR ? this.#output.stderr(output) : this.#output.stdout(output));
    this.#post({ taken: output.length });
  }

  /** Takes news, which do not wait for output without a reader. @returns the work to do after that output */
  #hear(text: string): () => void {
    const { taken, resuming, exit, error }: News = JSON.parse(text);
    if (taken !== undefined) this.#window.release(taken);
    if (resuming !== undefined) this.#output.resuming?.(resuming);
    return () => {
      if (error) throw serverError(error);
      if (!exit) return;
      this.#exit.resolve(exit);
      this.#window.close();
    };
  }

  #fail(error: unknown): void {
    this.#exit.reject(error);
    this.#open.resolve();
    this.#window.close();
    this.#socket.close();
  }

  #post(message: Record<string, unknown>): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }
}

function lost(): SbxError {
  return new SbxError("process.gone", "the connection was lost before the program ended", {
    hint: "sbx list shows whether the VM is still running",
  });
}
