import type { EventProcess } from "../../event/mod.ts";
import type { Gate } from "../../policy/mod.ts";
import { type Channel, FrameError } from "../../base/wire/mod.ts";
import type { Catalogue, CatalogueList, Progress } from "./catalogue.ts";
import { processOf } from "./event.ts";
import type { EndpointLimits } from "./limit.ts";
import { METHODS } from "./method.ts";
import { Outbox } from "./outbox.ts";
import { helloName, isEnd, progressToken } from "./params.ts";
import { type Done, perform } from "./perform.ts";
import { initializeResult, LOG_LEVELS, logLevel } from "./protocol.ts";
import { errorAnswer, type Params, readMessage, RPC, RpcError, rpcErrorOf, type RpcId } from "./rpc.ts";

/** What a connection shares with the others of its guest. */
export interface Shared {
  gate: Gate;
  catalogue: Catalogue;
  limits: EndpointLimits;
  /** Takes one of the guest's places for a request. @returns false when none is free */
  enter(): boolean;
  leave(): void;
}

/** The level of what policy says to a guest. */
const WARNING = LOG_LEVELS.indexOf("warning");
const WAYS_TO_START = new Set(["initialize", "ping"]);

/** One MCP client of a guest: its requests run side by side, and end with it. */
export class Connection {
  readonly #channel: Channel;
  readonly #shared: Shared;
  readonly #out: Outbox;
  readonly #open = new Map<RpcId, { abort: AbortController; answered: Promise<void> }>();
  #process: EventProcess = processOf("");
  #started = false;
  #initialized = false;
  #logLevel = Infinity;

  constructor(channel: Channel, shared: Shared) {
    this.#channel = channel;
    this.#shared = shared;
    this.#out = new Outbox(channel, shared.limits.writeTimeoutMs);
  }

  /** Serves until the guest ends it; what is under way is cancelled then, unless the guest waits for it. */
  async run(): Promise<void> {
    try {
      const name = helloName(await this.#channel.next());
      if (name === undefined) throw new FrameError("the first frame is Hello{process_name}");
      this.#process = processOf(name);
      for (let frame = await this.#channel.next(); frame !== null; frame = await this.#channel.next()) {
        if (isEnd(frame)) return await this.#drained();
        await this.#take(frame);
      }
    } catch (error) {
      if (error instanceof FrameError) await this.#lastWords(error);
      // Anything else is the connection's own end: the guest's program is gone.
    } finally {
      for (const { abort } of this.#open.values()) {
        abort.abort(new RpcError(RPC.failed, "the guest's program is gone"));
      }
      this.#channel.close();
    }
  }

  /** A list is not what the guest was shown. */
  announce(list: CatalogueList): void {
    if (this.#initialized) this.#out.notify(`notifications/${list}/list_changed`);
  }

  close(): void {
    this.#channel.close();
  }

  /** Answers what is under way and says so; the guest closes, for a vsock may lose what its closing overtakes. */
  async #drained(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ answered }) => answered));
    await this.#out.post({ t: "End" });
    await this.#channel.next();
  }

  /** Frames cannot be trusted after a bad one: the guest is told why, and that is all. */
  async #lastWords({ message, cause }: FrameError): Promise<void> {
    const error = new RpcError(cause === undefined ? RPC.invalid : RPC.parse, message);
    await this.#out.post(errorAnswer(error)).catch(() => {});
  }

  /** Awaits nothing but its own refusals: a guest that does not read them is not read from. */
  async #take(frame: unknown): Promise<void> {
    try {
      const message = readMessage(frame);
      if (message.kind === "notification") this.#notified(message.method, message.params);
      if (message.kind === "request") this.#begin(message.id, message.method, message.params);
    } catch (error) {
      await this.#out.post(errorAnswer(rpcErrorOf(error)));
    }
  }

  #notified(method: string, { requestId }: Params): void {
    if (method === "notifications/initialized") this.#initialized = this.#started;
    if (method === "notifications/cancelled") {
      const reason = new RpcError(RPC.failed, "cancelled by the guest");
      this.#open.get(requestId as RpcId)?.abort.abort(reason);
    }
  }

  #begin(id: RpcId, method: string, params: Params): void {
    if (this.#open.has(id)) {
      throw new RpcError(RPC.invalid, `a request with id ${JSON.stringify(id)} is under way already`);
    }
    if (!this.#shared.enter()) {
      const most = this.#shared.limits.inFlight;
      throw new RpcError(RPC.failed, `${most} requests are under way: wait for one of them`, undefined, id);
    }
    const abort = new AbortController();
    // It is entered before anything of it runs, so that it can be cancelled from its first moment on.
    const answered = Promise.resolve().then(() => this.#answer(id, method, params, abort)).catch(() => {
      // the guest is gone
    }).finally(() => {
      this.#open.delete(id);
      this.#shared.leave();
    });
    this.#open.set(id, { abort, answered });
  }

  async #answer(id: RpcId, method: string, params: Params, abort: AbortController): Promise<void> {
    let done: Done;
    try {
      done = await this.#result(method, params, abort);
    } catch (error) {
      const known = rpcErrorOf(error);
      // Whoever has cancelled waits for no answer, and a time that is over is an answer.
      if (abort.signal.aborted && known.code !== RPC.timeout) return;
      this.#warn(known);
      return await this.#out.post(errorAnswer(known, id));
    }
    await this.#send(id, done, abort.signal);
  }

  async #send(id: RpcId, { result, finish }: Done, { aborted }: AbortSignal): Promise<void> {
    if (aborted) return finish("cancelled by the guest");
    let sent: Promise<void>;
    try {
      sent = this.#out.post({ jsonrpc: "2.0", id, result });
      finish();
    } catch (error) {
      const message = error instanceof FrameError
        ? "the answer is larger than a frame may be (1 MiB): ask for less of it"
        : "the server's answer cannot be passed on as JSON";
      finish(message);
      sent = this.#out.post(errorAnswer(new RpcError(RPC.failed, message), id));
    }
    await sent;
  }

  async #result(method: string, params: Params, abort: AbortController): Promise<Done> {
    const own = this.#own(method, params);
    if (own) return { result: own, finish() {} };
    const prepare = METHODS.get(method);
    if (!prepare) throw new RpcError(RPC.unknownMethod, `there is no method ${method.slice(0, 100)} here`);
    const { gate, catalogue, limits } = this.#shared;
    const token = progressToken(params);
    const options = {
      signal: abort.signal,
      ...(token !== undefined &&
        { progress: (progress: Progress) => this.#progress(token, abort.signal, progress) }),
    };
    const prepared = prepare({ params, catalogue, process: this.#process, options, limits });
    const { signal } = abort;
    return await perform({ gate, signal, abort: (reason) => abort.abort(reason), ...prepared });
  }

  /** What is answered without policy: nothing of it reaches beyond this connection. */
  #own(method: string, params: Params): Params | undefined {
    if (!this.#started && !WAYS_TO_START.has(method)) {
      throw new RpcError(RPC.invalid, `${method.slice(0, 100)} comes before initialize`);
    }
    switch (method) {
      case "initialize": {
        if (this.#started) throw new RpcError(RPC.invalid, "this connection is initialized already");
        const result = initializeResult(params);
        this.#started = true;
        return result;
      }
      case "ping":
        return {};
      case "logging/setLevel":
        this.#logLevel = logLevel(params);
        return {};
    }
  }

  #progress(progressToken: string | number, { aborted }: AbortSignal, progress: Progress): void {
    if (aborted) return;
    const { progress: done, total, message } = progress;
    this.#out.notify("notifications/progress", { progressToken, progress: done, total, message });
  }

  /** Says a refusal as a log message too, to a client that wants those: its people see what the agent may not tell. */
  #warn({ code, message, data }: RpcError): void {
    if (code !== RPC.invalid || data === undefined || this.#logLevel > WARNING) return;
    this.#out.notify("notifications/message", { level: "warning", logger: "policy", data: message });
  }
}
