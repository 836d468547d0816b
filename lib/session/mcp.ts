import { log } from "../base/log/mod.ts";
import {
  Aggregator,
  type CredentialResolver,
  definitionsOf,
  findingOf,
  PinStore,
  type ServerStatus,
  type ToolEntry,
} from "../mcp/mod.ts";
import { callForHost, Endpoint, LOCAL, LocalServer, type Send } from "../mcp/endpoint/mod.ts";
import type { Channel } from "../base/wire/mod.ts";
import type { Contract } from "./files/contract.ts";
import type { SessionGate } from "./gate.ts";

/** What MCP needs of its session. */
export interface McpOptions {
  gate: SessionGate;
  contract: Contract;
  /** folder that only this user may enter */
  dir: string;
  /** where the tools that were approved for the profile are remembered */
  pinsPath: string;
  resolve?: CredentialResolver;
  /** the way of the guest's own HTTP requests, for the built-in server */
  send?: Send;
}

/** MCP of one session: the servers outside, and the endpoint through which the guest reaches them. */
export class McpSide {
  readonly #aggregator: Aggregator;
  readonly #endpoint: Endpoint;
  readonly #gate: SessionGate;
  readonly #local: LocalServer;

  private constructor(gate: SessionGate, aggregator: Aggregator, local: LocalServer) {
    this.#gate = gate;
    this.#aggregator = aggregator;
    this.#local = local;
    this.#endpoint = new Endpoint({ gate, catalogue: aggregator, local });
  }

  static async open({ gate, contract, dir, pinsPath, resolve, send }: McpOptions): Promise<McpSide> {
    const aggregator = await Aggregator.start({
      definitions: serversOf(contract),
      dir,
      resolve,
      pins: new PinStore(pinsPath),
      onFinding: (change) => {
        const event = gate.observe({
          common: { event_type: "mcp.tool_list", source_engine: "mcp", actor: "host" },
          mcp: {
            request: {
              method: "tools/list",
              server_name: change.server,
              tool_name: change.tool,
              namespaced_tool_name: `${change.server}__${change.tool}`,
              arguments: {},
            },
          },
        });
        gate.report([findingOf(change, event.common.event_id)]);
      },
      log,
    });
    return new McpSide(gate, aggregator, new LocalServer({ send }));
  }

  /** One connection of the guest (contracts.md §7, port 5002). */
  serve(channel: Channel): Promise<void> {
    return this.#endpoint.serve(channel);
  }

  /** The built-in server first, then those outside. */
  async listServers(): Promise<ServerStatus[]> {
    const tools = await this.#local.listTools();
    const local: ServerStatus = {
      name: LOCAL,
      url: "",
      enabled: true,
      source: "builtin",
      connected: true,
      tool_count: tools.length,
      resource_count: 0,
      prompt_count: 0,
    };
    return [local, ...await this.#aggregator.listServers()];
  }

  /** The built-in server's tools first; they are not pinned, being part of this program. */
  async listTools(): Promise<ToolEntry[]> {
    const own = (await this.#local.listTools()).map((tool): ToolEntry => ({
      namespaced_name: tool.namespaced_name,
      original_name: tool.namespaced_name.slice(LOCAL.length + 2),
      description: tool.description ?? "",
      input_schema: tool.input_schema as Record<string, unknown>,
      server_name: LOCAL,
      annotations: (tool.annotations ?? {}) as ToolEntry["annotations"],
      pin_hash: "",
      pin_changed: false,
    }));
    return [...own, ...await this.#aggregator.listTools()];
  }

  /** Calls a tool for somebody on the host: policy decides on it as on a call of the guest. @throws {SbxError} */
  async callTool(name: string, args: Record<string, unknown>): Promise<unknown> {
    return await callForHost({
      gate: this.#gate,
      catalogue: this.#aggregator,
      local: this.#local,
      name,
      args,
    });
  }

  /** Disconnects all servers and connects to those of the contract as it is now (spec.md, "Hot reload steps"). */
  async refresh(contract: Contract): Promise<void> {
    await this.#aggregator.refresh(serversOf(contract));
  }

  /** Somebody approved a tool. */
  recheck(): void {
    this.#aggregator.recheck();
  }

  async close(): Promise<void> {
    this.#endpoint.close();
    await this.#aggregator.close();
  }
}

function serversOf({ profile, corp }: Contract) {
  return definitionsOf(profile.mcp, corp.mcp);
}
