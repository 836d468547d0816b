/**
 * MCP endpoint of one guest: lists tools, decides on calls and forwards them (docs/design/contracts/08-mcp.md
 * §8, "Guest endpoint").
 */
import type { Channel } from "../../base/wire/mod.ts";
import { type Gate, type Passage, summary } from "../../policy/mod.ts";
import type { Catalogue, ToolServer } from "./catalogue.ts";
import { GuestConnection, type GuestState, Subscriptions } from "./connection.ts";
import { type EndpointLimits, LIMITS, LOG_MESSAGES_PER_MINUTE, SERVER_REQUESTS_PER_MINUTE } from "./limit.ts";
import { withLocal } from "./local.ts";
import type { ServerNotice, ServerRequest } from "../schema.ts";
import { draftOf, keptOf, type McpResponse } from "./event.ts";
import { argumentsParam, LOG_LEVELS, type Params, PolicyError, RPC, RpcError } from "./rpc.ts";
import { PerMinute } from "../limit.ts";
import { isObject, objectOf } from "../../base/object/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { processOf } from "../../event/mod.ts";
import { METHODS } from "./method.ts";
import { perform } from "./perform.ts";

/** Parts of the endpoint of one guest. */
export interface EndpointParts {
  gate: Gate;
  /** external servers */
  catalogue: Catalogue;
  /** built-in server; absent when disabled */
  local?: ToolServer;
  limits?: Partial<EndpointLimits>;
}

/**
 * The MCP endpoint of one guest (docs/design/contracts/07-guest-wire.md §7, "MCP port"; §8, "Guest
 * endpoint"): the policy boundary between the guest's MCP clients and external servers.
 */
export class McpEndpoint {
  readonly #shared: GuestState;
  readonly #connections = new Set<GuestConnection>();
  readonly #unwatch: () => void;
  #inFlight = 0;
  #closed = false;

  constructor({ gate, catalogue, local, limits }: EndpointParts) {
    const all = { ...LIMITS, ...limits };
    this.#shared = {
      gate,
      catalogue: local ? withLocal(catalogue, local) : catalogue,
      limits: all,
      subscriptions: new Subscriptions(),
      enter: () => {
        if (this.#inFlight >= all.inFlight) return false;
        this.#inFlight++;
        return true;
      },
      leave: () => void this.#inFlight--,
      largeResults: 0,
    };
    const requests = new ServerRequests(gate, this.#connections, all.callTimeoutMs);
    const notices = new ServerNotices(gate, this.#connections, this.#shared.subscriptions);
    const ends = [
      catalogue.watch?.((list) => {
        for (const connection of this.#connections) connection.announce(list);
      }),
      catalogue.answerRequests?.((request, signal) => requests.answer(request, signal)),
      catalogue.watchNotices?.((notice) => notices.pass(notice)),
    ];
    this.#unwatch = () => ends.forEach((end) => end?.());
  }

  /**
   * Serves one connection of the guest until it ends. Never rejects: a malformed
   * frame ends its own connection only.
   *
   * @param channel frames of at most `MCP_FRAME_LIMIT`; the first is `Hello{process_name}`
   */
  async serve(channel: Channel): Promise<void> {
    if (this.#closed || this.#connections.size >= this.#shared.limits.connections) return channel.close();
    const connection = new GuestConnection(channel, this.#shared);
    this.#connections.add(connection);
    await connection.run().finally(() => this.#connections.delete(connection));
  }

  /** Closes every connection when the VM ends. */
  close(): void {
    this.#closed = true;
    this.#unwatch();
    for (const connection of this.#connections) connection.close();
  }
}

/** Passes notices of servers on to the guest: log messages through policy, updates as they are. */
class ServerNotices {
  readonly #gate: Gate;
  readonly #connections: Iterable<GuestConnection>;
  readonly #subscriptions: Subscriptions<GuestConnection>;
  readonly #logged = new PerMinute(LOG_MESSAGES_PER_MINUTE);

  constructor(
    gate: Gate,
    connections: Iterable<GuestConnection>,
    subscriptions: Subscriptions<GuestConnection>,
  ) {
    this.#gate = gate;
    this.#connections = connections;
    this.#subscriptions = subscriptions;
  }

  pass(notice: ServerNotice): void {
    if (notice.method === "notifications/message") {
      this.#passLog(notice).catch(ignore("a message that cannot be read or recorded is dropped"));
      return;
    }
    const uri = String(notice.params.uri);
    for (const connection of this.#subscriptions.subscribersOf(uri)) connection.announceUpdate(uri);
  }

  async #passLog({ server, method, params: { level, logger, data } }: ServerNotice): Promise<void> {
    const at = LOG_LEVELS.indexOf(level as string);
    const wants = () => [...this.#connections].filter((connection) => connection.wantsLog(at));
    if (at < 0 || wants().length === 0 || !this.#logged.take()) return;
    const name = typeof logger === "string" ? logger : "";
    const names = { server_name: server, tool_name: name, namespaced_tool_name: `${server}__${name}` };
    const args = argumentsParam({ arguments: { level, data } });
    const passage = await this.#gate.decide(draftOf("mcp.event", method, {}, names, args));
    if (!passage.allowed) return;
    const { arguments: { level: decided, data: text } } = passage.event.mcp!.request;
    for (const connection of wants()) {
      connection.log({ level: decided, logger: name ? `${server}/${name}` : server, data: text });
    }
    passage.finish();
  }
}

/** Result of an elicitation that a person or policy declined. */
const DECLINED = { action: "decline" };
const ACTIONS = ["accept", "decline", "cancel"];

/** Answers requests of servers: first policy or a person, then the guest's client or the form's defaults. */
class ServerRequests {
  readonly #gate: Gate;
  readonly #connections: Iterable<GuestConnection>;
  readonly #timeoutMs: number;
  readonly #asked = new PerMinute(SERVER_REQUESTS_PER_MINUTE);

  constructor(gate: Gate, connections: Iterable<GuestConnection>, timeoutMs: number) {
    this.#gate = gate;
    this.#connections = connections;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Answers a request. A refusal by policy or a person is a declined elicitation, or an error for sampling.
   *
   * @throws Error whose message is for the server
   */
  async answer({ server, method, params }: ServerRequest, signal: AbortSignal): Promise<Params> {
    if (!this.#asked.take()) {
      throw new Error(`servers have made ${SERVER_REQUESTS_PER_MINUTE} requests in this minute, the limit`);
    }
    const { _meta, ...rest } = params;
    const args = argumentsParam({ arguments: rest });
    const names = { server_name: server, tool_name: "", namespaced_tool_name: "" };
    const passage = await this.#gate.decide(draftOf("mcp.event", method, {}, names, args), signal);
    const isElicitation = method === "elicitation/create";
    if (!passage.allowed) {
      if (isElicitation) return DECLINED;
      throw new Error("policy of the client does not allow sampling");
    }
    try {
      const result = await this.#result(server, method, passage, signal);
      const response = responseOf(result);
      if (passage.review(response)) {
        passage.finish({ response: keptOf(response) });
        if (isElicitation) return DECLINED;
        throw new Error("policy of the client blocked the answer");
      }
      passage.finish({ response: keptOf(response) });
      return result;
    } catch (error) {
      passage.finish({ error: (error as Error).message });
      throw error;
    }
  }

  async #result(
    server: string,
    method: ServerRequest["method"],
    { event }: Passage,
    signal: AbortSignal,
  ): Promise<Params> {
    const params = event.mcp!.request.arguments as Params;
    const capability = method === "elicitation/create" ? "elicitation" : "sampling";
    const client = [...this.#connections].findLast((connection) => connection.canAnswer(capability, server));
    const limited = AbortSignal.any([signal, AbortSignal.timeout(this.#timeoutMs)]);
    if (capability === "sampling") {
      if (client) return await client.request(method, params, limited);
      throw new Error("no program of the client that called this server offers sampling");
    }
    if (!client) {
      const content = defaultsOf(params);
      return content ? { action: "accept", content } : DECLINED;
    }
    // The guest's client shows sbx as the server, so the message names the real one.
    const message = `${server}: ${String(params.message ?? "")}`;
    const result = await client.request(method, { ...params, message }, limited);
    return ACTIONS.includes(result.action as string) ? result : DECLINED;
  }
}

/** Response of an event, as a server would get it. */
function responseOf(result: Params): McpResponse {
  const { content } = result;
  const item = isObject(content) ? content : result;
  return { is_error: false, content: [item] as McpResponse["content"] };
}

/**
 * Fills in a server's form (MCP, "Elicitation") with the defaults of its schema.
 *
 * @returns `undefined` when a required field has no default, or the request is not a form
 */
export function defaultsOf({ mode = "form", requestedSchema }: Params): Params | undefined {
  if (mode !== "form" || !isObject(requestedSchema)) return undefined;
  const { properties, required } = requestedSchema;
  const values: Params = {};
  for (const [name, field] of Object.entries(objectOf(properties))) {
    if (isObject(field) && field.default !== undefined) values[name] = field.default;
  }
  const isComplete = !Array.isArray(required) ||
    required.every((name) => Object.hasOwn(values, String(name)));
  return isComplete ? values : undefined;
}

/** A tool call made on the host. */
export interface HostCall {
  gate: Gate;
  catalogue: Catalogue;
  local: ToolServer;
  /** namespaced */
  name: string;
  args: Record<string, unknown>;
  /** trace that the request for it claims */
  trace_id?: string;
}

/**
 * Calls a tool for the host: an event with actor `host`, subject to policy like a guest's call.
 *
 * @returns MCP's `CallToolResult`
 * @throws {SbxError} `policy.blocked`, `mcp.tool.not_found`, `mcp.timeout`, `mcp.failed`
 */
export async function callForHost(
  { gate, catalogue, local, name, args, trace_id }: HostCall,
): Promise<unknown> {
  const abort = new AbortController();
  const prepare = METHODS.get("tools/call")!;
  const { draft, timeoutMs, effect } = prepare({
    params: { name, arguments: args },
    catalogue: withLocal(catalogue, local),
    caller: { process: processOf("sbx"), ...(trace_id !== undefined && { trace_id }) },
    options: { signal: abort.signal },
    limits: LIMITS,
    subscriptions: { add() {}, remove: () => false },
  });
  try {
    const { result, finish } = await perform({
      gate,
      draft: { ...draft, common: { ...draft.common, actor: "host" } },
      signal: abort.signal,
      timeoutMs,
      abort: (reason) => abort.abort(reason),
      effect,
    });
    finish();
    return result;
  } catch (error) {
    throw error instanceof RpcError ? sbxErrorOf(error, name) : error;
  }
}

function sbxErrorOf(error: RpcError, name: string): SbxError {
  const { code, message } = error;
  if (error instanceof PolicyError) {
    return new SbxError("policy.blocked", summary(error.decision), {
      hint: `sbx why ${error.decision.event_id} shows the decision`,
    });
  }
  if (code === RPC.timeout) return new SbxError("mcp.timeout", `${name}: ${message}`);
  return error.cause ?? new SbxError("mcp.failed", message);
}
