/**
 * One MCP client inside a guest: its requests, notifications and subscriptions. `endpoint.ts` carries out its
 * calls.
 */
import { ignore } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { type Channel, FrameCut, FrameError } from "../../base/wire/mod.ts";
import { processOf } from "../../event/mod.ts";
import type { Draft, Gate } from "../../policy/mod.ts";
import type { EntryKind, Progress } from "../schema.ts";
import type { Catalogue } from "./catalogue.ts";
import { type Caller, callerOf, draftOf, namesOf } from "./event.ts";
import {
  type EndpointLimits,
  LARGE_CHARS,
  LARGE_RESULTS_MAX,
  SUBSCRIPTIONS_MAX,
  WAITING_MAX,
} from "./limit.ts";
import { type Method, type MethodContext, METHODS, type PreparedRequest } from "./method.ts";
import { perform, type PerformedRequest, reportWaiting } from "./perform.ts";
import {
  ArgumentsRefused,
  errorAnswer,
  helloName,
  initializeResult,
  isEnd,
  LOG_LEVELS,
  logLevel,
  nameOf,
  type Params,
  progressToken,
  readMessage,
  RPC,
  RpcError,
  rpcErrorOf,
  type RpcId,
} from "./rpc.ts";

/** State shared by all connections of one guest. */
export interface GuestState {
  gate: Gate;
  catalogue: Catalogue;
  limits: EndpointLimits;
  subscriptions: Subscriptions<GuestConnection>;
  /** Reserves one of the guest's concurrent requests. @returns false at the limit */
  enter(): boolean;
  leave(): void;
  /** long results on their way to the guest */
  largeResults: number;
}

/** Log messages about policy, by their level. */
const [INFO, WARNING] = ["info", "warning"].map((level) => LOG_LEVELS.indexOf(level));
/** Methods allowed before `initialize`. */
const METHODS_BEFORE_INITIALIZE = new Set(["initialize", "ping"]);

/** One MCP client of a guest: its requests run concurrently, and end with it. */
export class GuestConnection {
  readonly #channel: Channel;
  readonly #shared: GuestState;
  readonly #out: Outbox;
  readonly #requests = new Map<RpcId, { abort: AbortController; answered: Promise<void> }>();
  readonly #questions: GuestRequests;
  /** servers of the requests in progress */
  readonly #servers: string[] = [];
  #capabilities: Params = {};
  #caller: Caller = {};
  #started = false;
  #initialized = false;
  #logLevel = Infinity;

  constructor(channel: Channel, shared: GuestState) {
    this.#channel = channel;
    this.#shared = shared;
    this.#out = new Outbox(channel, shared.limits.writeTimeoutMs);
    this.#questions = new GuestRequests(this.#out);
  }

  /**
   * Serves until the guest closes it. Requests in progress are cancelled then; after
   * `End` they are answered first.
   */
  async run(): Promise<void> {
    try {
      const name = helloName(await this.#channel.next());
      if (name === undefined) throw new FrameError("the first frame must be Hello{process_name}");
      this.#caller = callerOf(processOf(name), {});
      for (let frame = await this.#channel.next(); frame !== null; frame = await this.#channel.next()) {
        if (isEnd(frame)) return await this.#drain();
        await this.#handle(frame);
      }
    } catch (error) {
      if (error instanceof FrameError) await this.#reportFrameError(error);
      // Any other error is the end of the connection: the guest's program has exited.
    } finally {
      for (const { abort } of this.#requests.values()) {
        abort.abort(new RpcError(RPC.failed, "the guest's program closed the connection"));
      }
      this.#channel.close();
      this.#questions.close();
      this.#endSubscriptions();
    }
  }

  /** Notifies the guest that a list changed. */
  announce(list: EntryKind): void {
    if (this.#initialized) this.#out.notify(`notifications/${list}/list_changed`);
  }

  /** Notifies the guest of a change to a resource that it is subscribed to. */
  announceUpdate(uri: string): void {
    this.#out.notify("notifications/resources/updated", { uri });
  }

  /** Tests whether the guest receives log messages of a level. */
  wantsLog(level: number): boolean {
    return this.#initialized && level >= this.#logLevel;
  }

  /** Passes on a log message of a server. */
  log(params: Params): void {
    this.#out.notify("notifications/message", params);
  }

  /** Tests whether the program waits for an answer of a server, and can answer its requests. */
  canAnswer(capability: "elicitation" | "sampling", server: string): boolean {
    return this.#initialized && isObject(this.#capabilities[capability]) && this.#servers.includes(server);
  }

  /** Sends a request to the program. @throws Error it refuses, or does not answer */
  request(method: string, params: Params, signal: AbortSignal): Promise<Params> {
    return this.#questions.send(method, params, signal);
  }

  close(): void {
    this.#channel.close();
  }

  #endSubscriptions(): void {
    const { subscriptions, catalogue } = this.#shared;
    const options = { signal: new AbortController().signal };
    for (const uri of subscriptions.removeAll(this)) {
      catalogue.unsubscribe?.(uri, options).catch(
        ignore("without its server the subscription has ended too"),
      );
    }
  }

  /**
   * Answers the requests in progress, then sends `End`. The guest closes: a vsock
   * may lose data that is in transit.
   */
  async #drain(): Promise<void> {
    await Promise.all([...this.#requests.values()].map(({ answered }) => answered));
    await this.#out.post({ t: "End" });
    await this.#channel.next();
  }

  /** Sends the reason before the connection is closed: frames after a malformed one cannot be trusted. */
  async #reportFrameError(problem: FrameError): Promise<void> {
    const { message, cause } = problem;
    try {
      if (!(problem instanceof FrameCut)) this.#refuse(draftOf("mcp.event", "", this.#caller), message);
    } catch {
      // The ledger cannot be written: the connection ends all the same.
    }
    const error = new RpcError(cause === undefined ? RPC.invalid : RPC.parse, message);
    await this.#out.post(errorAnswer(error)).catch(ignore("the guest has disconnected"));
  }

  /**
   * Handles one message. Waits until an error answer is sent: a guest that does not read is not read from.
   */
  async #handle(frame: unknown): Promise<void> {
    try {
      const message = readMessage(frame);
      if (message.kind === "notification") this.#handleNotification(message.method, message.params);
      if (message.kind === "answer") this.#questions.receive(message.id, message.result);
      if (message.kind === "request") this.#begin(message.id, message.method, message.params);
    } catch (error) {
      await this.#out.post(errorAnswer(rpcErrorOf(error)));
    }
  }

  #handleNotification(method: string, { requestId }: Params): void {
    if (method === "notifications/initialized") this.#initialized = this.#started;
    if (method === "notifications/cancelled") {
      const reason = new RpcError(RPC.failed, "cancelled by the guest");
      this.#requests.get(requestId as RpcId)?.abort.abort(reason);
    }
  }

  #begin(id: RpcId, method: string, params: Params): void {
    if (this.#requests.has(id)) {
      throw new RpcError(RPC.invalid, `a request with id ${JSON.stringify(id)} is already in progress`);
    }
    if (!this.#shared.enter()) {
      const limit = this.#shared.limits.inFlight;
      const message = `${limit} requests are in progress, the limit of this VM; wait for one to finish`;
      throw new RpcError(RPC.failed, message, undefined, id);
    }
    const abort = new AbortController();
    // Registered before it runs, so that it can be cancelled from the start.
    const answered = Promise.resolve().then(() => this.#answer(id, method, params, abort)).catch(() => {
      // the guest has disconnected
    }).finally(() => {
      this.#requests.delete(id);
      this.#shared.leave();
    });
    this.#requests.set(id, { abort, answered });
  }

  async #answer(id: RpcId, method: string, params: Params, abort: AbortController): Promise<void> {
    let done: PerformedRequest;
    try {
      done = await this.#result(method, params, abort);
    } catch (error) {
      const failure = rpcErrorOf(error);
      // A cancelled request gets no answer; one that timed out does.
      if (abort.signal.aborted && failure.code !== RPC.timeout) return;
      this.#warn(failure);
      return await this.#out.post(errorAnswer(failure, id));
    }
    await this.#send(id, done, abort.signal);
  }

  async #send(id: RpcId, { result, finish }: PerformedRequest, { aborted }: AbortSignal): Promise<void> {
    if (aborted) return finish("cancelled by the guest");
    const large = isLarge(result) ? 1 : 0;
    let sent: Promise<void>;
    this.#shared.largeResults += large;
    try {
      if (this.#shared.largeResults * large > LARGE_RESULTS_MAX) throw new TooManyLarge();
      sent = this.#out.post({ jsonrpc: "2.0", id, result });
      finish();
    } catch (error) {
      const message = error instanceof TooManyLarge
        ? error.message
        : error instanceof FrameError
        ? "the result exceeds the frame limit of 4 MiB; request less data"
        : "the server's result cannot be serialized as JSON";
      finish(message);
      sent = this.#out.post(errorAnswer(new RpcError(RPC.failed, message), id));
    }
    await sent.finally(() => this.#shared.largeResults -= large);
  }

  async #result(method: string, params: Params, abort: AbortController): Promise<PerformedRequest> {
    const result = this.#answerLocally(method, params);
    if (result) return { result, finish() {} };
    const prepare = METHODS.get(method);
    if (!prepare) throw new RpcError(RPC.unknownMethod, `unknown method ${method.slice(0, 100)}`);
    const { gate, catalogue, limits } = this.#shared;
    const token = progressToken(params);
    const options = {
      signal: abort.signal,
      ...(token !== undefined &&
        { progress: (progress: Progress) => this.#progress(token, abort.signal, progress) }),
    };
    const subscriptions = {
      add: (uri: string) => this.#shared.subscriptions.add(uri, this),
      remove: (uri: string) => this.#shared.subscriptions.remove(uri, this),
    };
    const caller = callerOf(this.#caller.process, params);
    const context = { params, catalogue, caller, options, limits, subscriptions };
    const prepared = this.#recordingRefusals(method, prepare, context);
    const { signal } = abort;
    const server = prepared.draft.mcp!.request.server_name;
    this.#servers.push(server);
    try {
      const log = (text: string) => this.#logPolicy(INFO, text);
      const waiting = (askId: string) => reportWaiting(askId, options.progress, log);
      return await perform({ gate, signal, abort: (reason) => abort.abort(reason), waiting, ...prepared });
    } finally {
      this.#servers.splice(this.#servers.indexOf(server), 1);
    }
  }

  /** Records a request whose arguments are over a limit; its names have been read by then. */
  #recordingRefusals(method: string, prepare: Method, context: MethodContext): PreparedRequest {
    try {
      return prepare(context);
    } catch (error) {
      if (error instanceof ArgumentsRefused) {
        const type = method === "tools/call" ? "mcp.tool_call" : "mcp.event";
        this.#refuse(draftOf(type, method, context.caller, namesOf(nameOf(context.params))), error.message);
      }
      throw error;
    }
  }

  #refuse(draft: Draft, reason: string): void {
    this.#shared.gate.refuse(draft, { id: "guard-malformed-mcp", reason });
  }

  /**
   * Answers the methods that concern this connection only, without policy.
   * @returns `undefined` for all others
   */
  #answerLocally(method: string, params: Params): Params | undefined {
    if (!this.#started && !METHODS_BEFORE_INITIALIZE.has(method)) {
      throw new RpcError(RPC.invalid, `${method.slice(0, 100)} was sent before initialize`);
    }
    switch (method) {
      case "initialize": {
        if (this.#started) throw new RpcError(RPC.invalid, "this connection is already initialized");
        const result = initializeResult(params);
        this.#started = true;
        if (isObject(params.capabilities)) this.#capabilities = params.capabilities;
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

  /**
   * Sends a refusal as a log message too, if the client receives log messages: its user sees a refusal that
   * the agent may not report.
   */
  #warn({ code, message, data }: RpcError): void {
    if (code === RPC.invalid && data !== undefined) this.#logPolicy(WARNING, message);
  }

  #logPolicy(level: number, data: string): void {
    if (this.#logLevel <= level) this.log({ level: LOG_LEVELS[level], logger: "policy", data });
  }
}

class TooManyLarge extends Error {
  override message =
    `${LARGE_RESULTS_MAX} long results are on their way to the VM, the limit; repeat the request`;
}

/** Tests whether the texts of a result have more than `LARGE_CHARS` characters. */
function isLarge(result: unknown): boolean {
  let chars = 0;
  const waiting = [result];
  while (waiting.length > 0 && chars <= LARGE_CHARS) {
    const value = waiting.pop();
    if (typeof value === "string") chars += value.length;
    else if (typeof value === "object" && value !== null) {
      for (const member of Object.values(value)) waiting.push(member);
    }
  }
  return chars > LARGE_CHARS;
}

/** Messages to a guest. The connection of a guest that reads nothing for too long is closed. */
class Outbox {
  readonly #channel: Channel;
  readonly #timeoutMs: number;
  #waiting = 0;
  #timer?: ReturnType<typeof setTimeout>;

  constructor(channel: Channel, timeoutMs: number) {
    this.#channel = channel;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Sends a message; settles when it is in the guest's socket.
   *
   * @throws {FrameError} synchronously: the message does not fit a frame
   */
  post(message: unknown): Promise<void> {
    const sent = this.#channel.send(message);
    if (this.#waiting++ === 0) this.#watch();
    return sent.finally(() => this.#handleSent());
  }

  /** Sends a notification; drops it when too many messages wait, or the guest has disconnected. */
  notify(method: string, params?: object): void {
    if (this.#waiting >= WAITING_MAX) return;
    try {
      this.post({ jsonrpc: "2.0", method, ...(params && { params }) }).catch(
        ignore("the guest has disconnected"),
      );
    } catch {
      // too large for a frame
    }
  }

  #handleSent(): void {
    clearTimeout(this.#timer);
    if (--this.#waiting > 0) this.#watch();
  }

  #watch(): void {
    this.#timer = setTimeout(() => this.#channel.close(), this.#timeoutMs);
  }
}

/** Requests to a program of the guest, and its answers. */
class GuestRequests {
  readonly #out: Outbox;
  readonly #pending = new Map<RpcId, (result: Params | undefined) => void>();
  #count = 0;

  constructor(out: Outbox) {
    this.#out = out;
  }

  /** @throws Error the program refuses, or does not answer before `signal` aborts */
  async send(method: string, params: Params, signal: AbortSignal): Promise<Params> {
    signal.throwIfAborted();
    const id = `sbx-${++this.#count}`;
    const { promise, resolve } = Promise.withResolvers<Params | undefined>();
    this.#pending.set(id, resolve);
    const onAbort = () => {
      this.#out.notify("notifications/cancelled", { requestId: id });
      resolve(undefined);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      await this.#out.post({ jsonrpc: "2.0", id, method, params });
      const result = await promise;
      if (result) return result;
      throw new Error("the client refused the request or did not answer");
    } finally {
      this.#pending.delete(id);
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Receives an answer; one to no request is ignored. */
  receive(id: RpcId | undefined, result: Params | undefined): void {
    if (id !== undefined) this.#pending.get(id)?.(result);
  }

  /** Fails every request: the program has gone. */
  close(): void {
    for (const resolve of this.#pending.values()) resolve(undefined);
  }
}

/** Subscriptions of one guest's connections to resources. */
export class Subscriptions<T> {
  readonly #subscribers = new Map<string, Set<T>>();

  /** @throws {RpcError} −32603: the guest has too many */
  add(uri: string, subscriber: T): void {
    const subscribers = this.#subscribers.get(uri);
    if (subscribers) subscribers.add(subscriber);
    else if (this.#subscribers.size < SUBSCRIPTIONS_MAX) this.#subscribers.set(uri, new Set([subscriber]));
    else {
      throw new RpcError(
        RPC.failed,
        `${SUBSCRIPTIONS_MAX} resources are subscribed to, the limit of this VM`,
      );
    }
  }

  /** @returns whether the resource has lost its last subscriber */
  remove(uri: string, subscriber: T): boolean {
    const subscribers = this.#subscribers.get(uri);
    if (!subscribers?.delete(subscriber) || subscribers.size > 0) return false;
    return this.#subscribers.delete(uri);
  }

  /** @returns the resources that have lost their last subscriber */
  removeAll(subscriber: T): string[] {
    return [...this.#subscribers.keys()].filter((uri) => this.remove(uri, subscriber));
  }

  subscribersOf(uri: string): Iterable<T> {
    return this.#subscribers.get(uri) ?? [];
  }
}
