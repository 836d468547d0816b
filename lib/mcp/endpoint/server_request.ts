/** Requests of servers: policy decides, a person is asked, and the guest's client or the form's defaults answer. */
import { isObject, objectOf } from "../../base/object/mod.ts";
import type { Gate, Passage } from "../../policy/mod.ts";
import type { ServerRequest } from "../entry.ts";
import type { GuestConnection } from "./connection.ts";
import { draftOf, keptOf, type McpResponse } from "./event.ts";
import { SERVER_REQUESTS_PER_MINUTE } from "./limit.ts";
import { argumentsParam } from "./params.ts";
import { PerMinute } from "../per_minute.ts";
import type { Params } from "./rpc.ts";

/** The answer of a person who does not want to. */
const DECLINED = { action: "decline" };
const ACTIONS = ["accept", "decline", "cancel"];

export class ServerRequests {
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
   * Answers a request. What policy or a person refuses is a declined elicitation, or an error.
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
    // Programs of the guest show sbx as the server.
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

// Forms of servers (MCP, "Elicitation").

/**
 * A form with the values that its schema proposes.
 *
 * @returns `undefined` when a required field has no default, or the request is no form
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
