/** WebSocket of a program whose input arrives while it runs (docs/design/contracts/02-http.md §2). */
import type { Hono } from "hono";
import { z } from "zod";
import { PipedRequest } from "../../../lib/client/api/mod.ts";
import { asSbxError, errorBody, SbxError } from "../../../lib/base/error/mod.ts";
import { parseJson } from "../../../lib/base/json/mod.ts";
import { log } from "../../../lib/base/log/mod.ts";
import { PROGRAM_WINDOW, Window } from "../../../lib/base/window/mod.ts";
import { comesBack, execPiped, type Pipes, type Supervisor } from "../../../lib/service/mod.ts";
import { traceOf } from "../handle.ts";
import { upgrade } from "./sockets.ts";

/** First byte of a message with output. */
const STREAM = { stdout: 1, stderr: 2 };
/** Later messages in text: the end of the input, or the `bytes` of output taken. */
const Control = z.union([
  z.strictObject({ end: z.literal(true) }),
  z.strictObject({ taken: z.int().nonnegative() }),
]);
/** Times its window that a client may have under way: it sends a piece when any of the window is free. */
const EXCESS = 2;

/** `WS /program/{id}`: a program whose input comes while it runs (docs/design/contracts/02-http.md §2). */
export function routePrograms(app: Hono, supervisor: Supervisor): void {
  app.get("/program/:id", (context) => {
    const vm = supervisor.find(context.req.param("id"));
    // An upgraded request has no headers any more.
    const trace = traceOf(context);
    const { socket, response } = upgrade(context);
    const ends = new ProgramSocket(socket);
    const run = async () => {
      const request = { ...await ends.request, ...trace };
      if (comesBack(vm)) ends.post({ resuming: vm.record.name });
      return await supervisor.inGuest(vm, "a program", () => execPiped(vm, request, ends, ends.gone));
    };
    run().then((exit) => ends.post({ exit }), (cause) => {
      const error = asSbxError(cause, "running a program");
      if (error.code === "internal") log.error(error.message, error.cause);
      ends.post({ error: errorBody(error) });
    }).finally(() => ends.close());
    return response;
  });
}

/** The service's end of one program's socket. */
class ProgramSocket implements Pipes {
  readonly #socket: WebSocket;
  readonly #window = new Window(PROGRAM_WINDOW);
  readonly #gone = new AbortController();
  readonly #requested = Promise.withResolvers<PipedRequest>();
  /** `bytes` of input that the program does not have yet */
  #untaken = 0;
  /** input for the program; null is its end */
  readonly #pieces: (Uint8Array | null)[] = [];
  #arrived = Promise.withResolvers<void>();
  #isRequested = false;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = () => this.#leave();
  }

  /** The program. @throws {SbxError} `request.invalid` */
  get request(): Promise<PipedRequest> {
    return this.#requested.promise;
  }

  /** Aborts when the client is gone. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  get input(): AsyncIterable<Uint8Array> {
    return this.#read();
  }

  async output(stream: keyof typeof STREAM, bytes: Uint8Array): Promise<void> {
    if (!await this.#window.claim(bytes.length)) return;
    const message = new Uint8Array(1 + bytes.length);
    message[0] = STREAM[stream];
    message.set(bytes, 1);
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(message);
  }

  taken(bytes: number): void {
    this.#untaken -= bytes;
    this.post({ taken: bytes });
  }

  post(message: Record<string, unknown>): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  close(): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.close(1000);
  }

  #leave(): void {
    this.#requested.reject(
      new SbxError("request.invalid", "the socket was closed before it named a program"),
    );
    this.#gone.abort();
    this.#window.close();
    this.#arrived.resolve();
  }

  #receive(data: unknown): void {
    try {
      if (!this.#isRequested) {
        this.#requested.resolve(PipedRequest.parse(parseJson(String(data))));
        this.#isRequested = true;
      } else if (data instanceof ArrayBuffer) this.#add(new Uint8Array(data));
      else this.#obey(Control.parse(parseJson(String(data))));
    } catch (cause) {
      const error = new SbxError("request.invalid", "a message of a program's socket is not valid", {
        cause,
      });
      this.post({ error: errorBody(error) });
      this.close();
      this.#leave();
    }
  }

  #obey(message: z.infer<typeof Control>): void {
    if ("end" in message) this.#add(null);
    else this.#window.release(message.taken);
  }

  #add(piece: Uint8Array | null): void {
    this.#pieces.push(piece);
    this.#untaken += piece?.length ?? 0;
    if (this.#untaken > EXCESS * PROGRAM_WINDOW) throw new Error("more input than the window has room for");
    this.#arrived.resolve();
    this.#arrived = Promise.withResolvers();
  }

  /** @throws {Error} the client is gone: its unfinished input has no end */
  async *#read(): AsyncIterable<Uint8Array> {
    while (true) {
      const piece = this.#pieces.shift();
      if (piece === null) return;
      if (piece) {
        yield piece;
      } else {
        this.gone.throwIfAborted();
        await this.#arrived.promise;
      }
    }
  }
}
