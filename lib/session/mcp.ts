/**
 * The MCP side of a session: its aggregator, and logins of people at MCP servers
 * (docs/design/contracts/09-credentials.md §9, "Logins").
 */
import { log } from "../base/log/mod.ts";
import type { Channel } from "../base/wire/mod.ts";
import type { SessionGate } from "./gate/mod.ts";
import {
  type AskAccess,
  callForHost,
  LOCAL,
  LocalServer,
  type LocalTool,
  McpEndpoint,
  type Send,
} from "../mcp/endpoint/mod.ts";
import {
  Aggregator,
  type AggregatorDefinition,
  type CredentialResolver,
  definitionsOf,
  findingOf,
  isLocalEnabled,
  type LoginToken,
  PinStore,
  programsOf,
  RENEW_BEFORE_MS,
  type ServerLogins,
  type ServerStatus,
  type ToolEntry,
} from "../mcp/mod.ts";
import type { McpNeed } from "./ipc/mod.ts";
import type { Contract } from "./files/contract.ts";
import type { AssignedVm, ProgramVms } from "./mcp_program.ts";
import { SbxError } from "../base/error/mod.ts";
import type { LoginPlace, Logins, LoginView, OpenLogin } from "../credential/mod.ts";

/** The parts of a session that its MCP uses. */
export interface McpOptions {
  gate: SessionGate;
  contract: Contract;
  /** folder for the aggregator's socket, closed to other users */
  dir: string;
  /** file of the tools that were approved for the profile */
  pinsPath: string;
  resolve?: CredentialResolver;
  logins?: ServerLogins;
  /** programs of stdio servers */
  programs: ProgramVms;
  /** sends HTTP requests of the built-in server on the guest's path */
  send?: Send;
  /** asks a person for access that a program of the guest wants */
  ask?: AskAccess;
  /** more tools of the built-in server */
  tools?: LocalTool[];
}

/** MCP of one session: the external servers, and the endpoint through which the guest reaches them. */
export class McpSide {
  readonly #aggregator: Aggregator;
  readonly #endpoint: McpEndpoint;
  readonly #gate: SessionGate;
  readonly #local: LocalServer;
  readonly #programs: ProgramVms;

  private constructor(gate: SessionGate, aggregator: Aggregator, local: LocalServer, programs: ProgramVms) {
    this.#programs = programs;
    this.#gate = gate;
    this.#aggregator = aggregator;
    this.#local = local;
    this.#endpoint = new McpEndpoint({ gate, catalogue: aggregator, local });
  }

  static async open(options: McpOptions): Promise<McpSide> {
    const { gate, contract, dir, pinsPath, resolve, logins, programs, send, ask, tools } = options;
    programs.use(programsIn(contract));
    const aggregator = await Aggregator.start({
      definitions: serversOf(contract),
      dir,
      resolve,
      logins,
      startStdio: (server, signal) => programs.start(server, signal),
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
      log: log.warn,
    });
    const local = new LocalServer({ send, ask, tools });
    local.isEnabled = isLocalEnabled(contract.profile.mcp, contract.corp.mcp);
    return new McpSide(gate, aggregator, local, programs);
  }

  /** One connection of the guest (docs/design/contracts/07-guest-wire.md §7, port 5002). */
  serve(channel: Channel): Promise<void> {
    return this.#endpoint.serve(channel);
  }

  /** The built-in server first, then the external ones. */
  async listServers(): Promise<ServerStatus[]> {
    const tools = await this.#local.listTools();
    const local: ServerStatus = {
      name: LOCAL,
      url: "",
      enabled: this.#local.isEnabled,
      source: "builtin",
      connected: this.#local.isEnabled,
      tool_count: tools.length,
      resource_count: 0,
      prompt_count: 0,
    };
    return [local, ...await this.#aggregator.listServers()];
  }

  /** The built-in server's tools first; they are part of this program and have no pins. */
  async listTools(): Promise<ToolEntry[]> {
    const builtin = (await this.#local.listTools()).map((tool): ToolEntry => ({
      namespaced_name: tool.namespaced_name,
      original_name: tool.namespaced_name.slice(LOCAL.length + 2),
      description: tool.description ?? "",
      input_schema: tool.input_schema as Record<string, unknown>,
      server_name: LOCAL,
      annotations: (tool.annotations ?? {}) as ToolEntry["annotations"],
      pin_hash: "",
      pin_changed: false,
    }));
    return [...builtin, ...await this.#aggregator.listTools()];
  }

  /**
   * Calls a tool for a user of the host, through the same policy as a call of the guest.
   * @throws {SbxError}
   */
  async callTool(name: string, args: Record<string, unknown>, trace_id?: string): Promise<unknown> {
    return await callForHost({
      gate: this.#gate,
      catalogue: this.#aggregator,
      local: this.#local,
      name,
      args,
      ...(trace_id !== undefined && { trace_id }),
    });
  }

  /**
   * Disconnects all servers and connects to the contract's (docs/design/contracts/08-mcp.md §8, "Hot
   * reload").
   */
  async refresh(contract: Contract): Promise<void> {
    this.#local.isEnabled = isLocalEnabled(contract.profile.mcp, contract.corp.mcp);
    this.#programs.use(programsIn(contract));
    await this.#aggregator.refresh(serversOf(contract));
  }

  /** Takes the VM that the service started for a stdio server's program, or the reason why there is no VM. */
  assignVm(need: McpNeed, vm: AssignedVm): void {
    this.#programs.assign(need, vm);
  }

  /** Checks held-back tools again, after a person approved one. */
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

function programsIn({ profile, corp }: Contract) {
  return programsOf(profile.mcp, corp.mcp);
}

export interface SessionLoginOptions {
  logins: Logins;
  profile: string;
  /** whether corp allows logins now */
  isAllowed(): boolean;
  /** gets the token of a login from the broker, which records its use; `undefined`: refused */
  use(ref: string, to: URL, login: LoginPlace): Promise<string | undefined>;
}

/** Tokens for the servers of a session, renewed on the host. */
export class SessionLogins implements ServerLogins {
  readonly #options: SessionLoginOptions;
  /** renewals under way, by server */
  readonly #renewals = new Map<string, Promise<void>>();

  constructor(options: SessionLoginOptions) {
    this.#options = options;
  }

  async token(definition: AggregatorDefinition, to: URL, rejected?: string): Promise<LoginToken | undefined> {
    const { logins, isAllowed, use } = this.#options;
    const place = this.#placeOf(definition);
    let login = isAllowed() ? logins.find(place) : undefined;
    if (!login) return undefined;
    if (rejected !== undefined || endsSoon(login)) {
      await this.#renew(place, rejected);
      login = logins.find(place);
    }
    const secret = login && await use(login.ref, to, place);
    return login && secret !== undefined ? { ref: login.ref, secret } : undefined;
  }

  async want(definition: AggregatorDefinition, scope: string): Promise<void> {
    const { logins } = this.#options;
    const place = this.#placeOf(definition);
    const { cleanScope } = await import("../mcp/oauth/mod.ts");
    await logins.exclusively(place, async () => {
      const login = await logins.open(place);
      const wanted = cleanScope(login?.terms.wanted_scope, scope);
      if (!login || wanted === undefined || wanted === login.terms.wanted_scope) return;
      await logins.save(place, { ...login, terms: { ...login.terms, wanted_scope: wanted } });
    });
  }

  advice({ name }: AggregatorDefinition): string {
    if (!this.#options.isAllowed()) return "corp does not allow logins at MCP servers";
    return `run sbx mcp login ${name} -p ${this.#options.profile}`;
  }

  #placeOf({ name, url }: AggregatorDefinition): LoginPlace {
    return { profile: this.#options.profile, server: name, url };
  }

  /** Renews a login once for all requests that wait for it. */
  #renew(place: LoginPlace, rejected: string | undefined): Promise<void> {
    const running = this.#renewals.get(place.server);
    if (running) return running;
    const renewal = this.#renewNow(place, rejected).finally(() => this.#renewals.delete(place.server));
    this.#renewals.set(place.server, renewal);
    return renewal;
  }

  async #renewNow(place: LoginPlace, rejected: string | undefined): Promise<void> {
    const { logins } = this.#options;
    await logins.exclusively(place, async () => {
      const login = await logins.open(place);
      // Another process was faster, or there is nothing to renew it with.
      const isDone = rejected === undefined ? !login || !endsSoon(login) : login?.access !== rejected;
      if (!login || isDone || login.refresh === undefined) return;
      try {
        await logins.save(place, await renewed(logins, place, login));
      } catch (error) {
        // A token that still holds is used until its end.
        if (rejected !== undefined || (login.terms.expires_at ?? Infinity) <= Date.now()) throw error;
        log.warn(`the login at MCP server "${place.server}" was not renewed:`, (error as Error).message);
      }
    });
  }
}

/** The login with new tokens; without the one for renewals when the server has ended it. */
async function renewed(logins: Logins, { url }: LoginPlace, login: OpenLogin): Promise<OpenLogin> {
  const { renewLogin } = await import("../mcp/oauth/mod.ts");
  const { client_ref } = login.terms;
  const secret = client_ref === undefined
    ? login.client
    : await logins.clientSecret(client_ref, new URL(login.terms.token_endpoint));
  if (client_ref !== undefined && secret === undefined) {
    throw new SbxError(
      "mcp.login.failed",
      `the client's secret ${client_ref} is not in the store for this host`,
    );
  }
  return await renewLogin(new URL(url), login, secret) ?? { ...login, refresh: undefined };
}

function endsSoon({ terms: { expires_at } }: Pick<LoginView, "terms">): boolean {
  return expires_at !== undefined && expires_at - RENEW_BEFORE_MS < Date.now();
}
