import { type Call, call, CallStream, type ReplyTo, type SingleKind, type StreamKind } from "../ipc/mod.ts";

/** The process of one VM, reached by its socket; a call fails while the process does not run. */
export class VmProcess {
  readonly #socket: string;

  /** @param socket path of the process's UDS */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /** Sends a call that has a single reply. @throws {SbxError} `process.gone`, or the error that the process replies with */
  call<T extends SingleKind>(request: Call & { t: T }): Promise<ReplyTo<T>> {
    return call<T>(this.#socket, request);
  }

  /** Sends a call whose replies are a stream. @throws {SbxError} `process.gone` */
  open<T extends StreamKind>(request: Call & { t: T }): Promise<CallStream<T>> {
    return CallStream.open<T>(this.#socket, request);
  }
}
