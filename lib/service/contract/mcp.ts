/**
 * MCP servers of profiles, reached through a running VM of the profile, and logins at them
 * (docs/design/contracts/08-mcp.md §8).
 */
import type {
  McpCall,
  McpCallResult,
  McpChange,
  McpLogin,
  McpLoginRequest,
  McpLoginState,
  McpRefreshed,
  McpServerList,
  McpToolList,
} from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import { loadProfile } from "../../config/profile/mod.ts";
import { pinsPath } from "../../session/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { corpLayer, LOGIN_SETTING } from "../../home/mod.ts";
import type { ContractRefresh } from "./refresh.ts";
import type { Supervisor } from "../vm/supervisor.ts";
import { comesBack } from "../vm/suspension.ts";
import type { Registry } from "../vm/registry.ts";
import type { Trace } from "../run/exec.ts";
import type { Vm } from "../vm/vm.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { CredentialStore, type LoginPlace, Logins, storePath } from "../../credential/mod.ts";
import type { AggregatorDefinition } from "../../mcp/mod.ts";
import type { LoginRequest, WaitingLogin } from "../../mcp/oauth/mod.ts";

/** Parts of the service that MCP involves. */
export interface ProfileMcpSources {
  home: Home;
  corp: CorpStore;
  settings: SettingsStore;
  registry: Registry;
  refresh: ContractRefresh;
  supervisor: Pick<Supervisor, "ready">;
}

/** A change of a pinned tool, as it is remembered. */
type PinnedChange = Omit<McpChange, "diff">;

/** The MCP servers of a home's profiles. lib/mcp is loaded when it is needed. */
export class ProfileMcp {
  readonly logins: McpLogins;
  readonly #sources: ProfileMcpSources;

  constructor(sources: ProfileMcpSources) {
    this.#sources = sources;
    this.logins = new McpLogins({
      ...sources,
      reconnect: (profile, server) => this.refresh(profile, server),
    });
  }

  /** Servers of a profile and of corp; none is connected while no VM of the profile runs. */
  async listServers(profileId: string): Promise<McpServerList> {
    const [vm] = this.#running(profileId);
    if (vm) {
      const { servers } = await vm.process.call({ t: "McpListServers" });
      return { servers, vm: vm.record.name };
    }
    const { definitionsOf, offlineStatuses } = await import("../../mcp/mod.ts");
    const { profile, corp } = await this.#definitions(profileId);
    return {
      servers: offlineStatuses(definitionsOf(profile, corp), `no VM runs with profile "${profileId}"`),
    };
  }

  /** Tools of one server. @throws {SbxError} `mcp.conflict`: no VM of the profile runs */
  async listTools(profileId: string, server: string): Promise<McpToolList> {
    const vm = await this.#requireRunning(profileId);
    const { tools } = await vm.process.call({ t: "McpListTools" });
    return { tools: tools.filter(({ server_name }) => server_name === server), vm: vm.record.name };
  }

  /**
   * Calls a tool under the policy of a VM.
   * @throws {SbxError} `mcp.conflict`, `policy.blocked`, `mcp.failed`
   */
  async callTool(
    profileId: string,
    server: string,
    tool: string,
    { arguments: args = {}, vm: idOrName, trace_id }: McpCall & Trace,
  ): Promise<McpCallResult> {
    const vm = await this.#requireRunning(profileId, idOrName);
    const { result } = await vm.process.call({
      t: "McpCallTool",
      name: `${server}__${tool}`,
      arguments: args,
      ...(trace_id !== undefined && { trace_id }),
    });
    return { result: result as McpCallResult["result"], vm: vm.record.name };
  }

  /**
   * Reads the servers of a profile again, and reconnects them in its running VMs.
   * @throws {SbxError} `mcp.server.not_found`
   */
  async refresh(profileId: string, server: string): Promise<McpRefreshed> {
    const { profile, corp } = await this.#definitions(profileId);
    if (!Object.hasOwn(profile, server) && !Object.hasOwn(corp, server)) {
      throw new SbxError("mcp.server.not_found", `profile "${profileId}" has no MCP server "${server}"`, {
        hint: didYouMean(server, [...Object.keys(profile), ...Object.keys(corp)]) ??
          `sbx mcp servers -p ${profileId} lists its servers`,
      });
    }
    const { refreshed, failed } = await this.#sources.refresh.refreshProfile(profileId, {
      t: "McpRefreshTools",
    });
    return { success: failed.length === 0, server_id: server, instances: refreshed.length };
  }

  /** Tools that are held back because they differ from their approved definitions. */
  async listChanges(profileId: string): Promise<McpChange[]> {
    const pins = await this.#openPins(profileId);
    return await Promise.all((await pins.changes()).map(addDiff));
  }

  /** Approves a tool as shown, by the hash of its definition. @throws {SbxError} as `PinStore.approve` */
  async approve(profileId: string, server: string, tool: string, shown: string): Promise<McpChange> {
    const pins = await this.#openPins(profileId);
    const change = await pins.approve(server, tool, shown);
    await Promise.all(this.#running(profileId).map((vm) => vm.process.call({ t: "McpRecheck" })));
    return await addDiff(change);
  }

  /** VMs that run with a profile, the oldest first. */
  #running(profileId: string): Vm[] {
    return this.#sources.registry.alive(profileId).filter(({ state, record }) =>
      state.state === "Running" && !record.parent
    );
  }

  /** Running VMs first, then the suspended ones that resume on a request. */
  #reachable(profileId: string): Vm[] {
    const asleep = this.#sources.registry.all().filter((vm) =>
      vm.record.profile_id === profileId && !vm.record.parent && (comesBack(vm) || vm.waking)
    );
    return [...this.#running(profileId), ...asleep];
  }

  async #requireRunning(profileId: string, idOrName?: string): Promise<Vm> {
    await loadProfile(this.#sources.home, profileId);
    const vms = this.#reachable(profileId);
    const vm = idOrName === undefined
      ? vms[0]
      : vms.find(({ record }) => record.id === idOrName || record.name === idOrName);
    if (vm) {
      await this.#sources.supervisor.ready(vm, "an MCP tool");
      return vm;
    }
    const what = idOrName === undefined
      ? `no VM runs with profile "${profileId}"`
      : `no VM called "${idOrName}" runs with profile "${profileId}"`;
    throw new SbxError("mcp.conflict", `${what}, and MCP servers are reached through one`, {
      hint: vms.length && idOrName !== undefined
        ? `running VMs of the profile: ${vms.map(({ record }) => record.name).join(", ")}`
        : `sbx list shows the VMs and their profiles; sbx create --profile ${profileId} starts one`,
    });
  }

  async #definitions(profileId: string) {
    const { home, corp } = this.#sources;
    const { mcp } = await loadProfile(home, profileId);
    return { profile: mcp, corp: (await corpLayer(corp)).mcp };
  }

  async #openPins(profileId: string) {
    const { home } = this.#sources;
    await loadProfile(home, profileId);
    const { PinStore } = await import("../../mcp/mod.ts");
    return new PinStore(pinsPath(home, profileId));
  }
}

async function addDiff(change: PinnedChange): Promise<McpChange> {
  const { definitionDiff, renderDiff } = await import("../../mcp/mod.ts");
  const diff = definitionDiff(change.before, change.after).map(({ field, parts }) => ({
    field,
    text: renderDiff(parts),
  }));
  return { ...change, diff };
}

/** Longest time in `ms` for which a request waits for the end of a login. */
const POLL_MS = 20_000;

interface McpLoginSources {
  home: Home;
  corp: CorpStore;
  settings: SettingsStore;
  /** connects a server again in the running VMs of the profile */
  reconnect(profile: string, server: string): Promise<unknown>;
}

/** A login that waits for a person, or how it ended. */
interface Attempt {
  ended: Promise<void>;
  cancel(): void;
  isOver: boolean;
  error?: unknown;
}

type Auth = AggregatorDefinition["auth"];

export class McpLogins {
  readonly #sources: McpLoginSources;
  readonly #logins: Logins;
  readonly #attempts = new Map<string, Attempt>();

  constructor(sources: McpLoginSources) {
    this.#sources = sources;
    this.#logins = new Logins(new CredentialStore(storePath(sources.home)));
  }

  /**
   * Begins a login in place of the one that waits.
   *
   * @throws {SbxError} `mcp.login.forbidden`, `mcp.login.failed`, `mcp.login.limit`, `mcp.server.not_found`
   */
  async begin(profile: string, server: string, { scope, port }: McpLoginRequest): Promise<McpLogin> {
    const { place, auth, isAllowed } = await this.#find(profile, server);
    requireLoginAllowed(server, auth, isAllowed);
    this.#attempts.get(keyOf(place))?.cancel();
    const { beginLogin, cleanScope, LOGINS_MAX } = await import("../../mcp/oauth/mod.ts");
    this.#requireRoom(LOGINS_MAX);
    const before = this.#logins.find(place)?.terms;
    const waiting = await beginLogin({
      url: new URL(place.url),
      scope: cleanScope(scope, before?.wanted_scope && cleanScope(before.scope, before.wanted_scope)),
      port,
      client: this.#clientOf(auth),
    });
    this.#follow(place, waiting);
    return { url: waiting.url, issuer: waiting.issuer, ...(waiting.scope && { scope: waiting.scope }) };
  }

  /** The login at a server. @throws {SbxError} the reason why the last attempt failed, once */
  async state(profile: string, server: string): Promise<McpLoginState> {
    const { place } = await this.#find(profile, server);
    const key = keyOf(place);
    const attempt = this.#attempts.get(key);
    if (attempt) {
      await Promise.race([attempt.ended, backgroundDelay(POLL_MS)]);
      if (!attempt.isOver) return { state: "waiting" };
      if (this.#attempts.get(key) === attempt) this.#attempts.delete(key);
      if (attempt.error !== undefined) throw attempt.error;
    }
    const login = this.#logins.find(place);
    if (!login) return { state: "logged_out" };
    const { scope, expires_at } = login.terms;
    return {
      state: "logged_in",
      ...(scope && { scope }),
      ...(expires_at !== undefined && { expires_at: new Date(expires_at).toISOString() }),
      renews: login.isRenewable,
    };
  }

  /** Forgets a login. @throws {SbxError} `mcp.login.not_found` */
  async remove(profile: string, server: string): Promise<McpLoginState> {
    const { place } = await this.#find(profile, server);
    this.#attempts.get(keyOf(place))?.cancel();
    const isRemoved = await this.#logins.exclusively(place, () => this.#logins.remove(place));
    if (!isRemoved) {
      throw new SbxError(
        "mcp.login.not_found",
        `no login at ${server} with profile "${profile}"`,
        {
          hint: `log in with sbx mcp login ${server} -p ${profile}`,
        },
      );
    }
    await this.#reconnect(place);
    return { state: "logged_out" };
  }

  /** @throws {SbxError} `mcp.login.limit` */
  #requireRoom(most: number): void {
    if (this.#attempts.values().filter(({ isOver }) => !isOver).toArray().length < most) return;
    throw new SbxError("mcp.login.limit", `${most} logins wait already`, {
      hint: "finish one of them, or wait until they end",
    });
  }

  /** The client that a definition names, with its secret from the store. */
  #clientOf(auth: Auth): LoginRequest["client"] {
    if (auth?.client_id === undefined) return undefined;
    const { client_id: id, credential_ref: ref } = auth;
    return { id, ...(ref && { ref, secret: (endpoint: URL) => this.#logins.clientSecret(ref, endpoint) }) };
  }

  /** Saves the login when its person has finished it, and connects the server with it. */
  #follow(place: LoginPlace, { finished, cancel }: WaitingLogin): void {
    const attempt: Attempt = { ended: Promise.resolve(), cancel, isOver: false };
    this.#attempts.set(keyOf(place), attempt);
    attempt.ended = finished.then(async (login) => {
      await this.#logins.exclusively(place, () => this.#logins.save(place, login));
      // A client that hears of the login may call a tool at once.
      await this.#reconnect(place);
    }).catch((error) => {
      attempt.error = error;
    }).finally(() => attempt.isOver = true);
  }

  async #reconnect({ profile, server }: LoginPlace): Promise<void> {
    await this.#sources.reconnect(profile, server).catch((error) =>
      log.warn(`reconnecting MCP server "${server}":`, (error as Error).message)
    );
  }

  /**
   * @throws {SbxError} `mcp.server.not_found`: no such server, or one that is
   * reached without HTTP or switched off
   */
  async #find(profile: string, server: string) {
    const { home, corp, settings } = this.#sources;
    const { definitionsOf } = await import("../../mcp/mod.ts");
    const [{ mcp }, layer] = await Promise.all([loadProfile(home, profile), corpLayer(corp)]);
    const definitions = definitionsOf(mcp, layer.mcp);
    const definition = definitions.find(({ name }) => name === server);
    if (!definition?.url || !definition.enabled) {
      const problem = definition ? "is switched off or not reached by HTTP" : "is not defined";
      throw new SbxError(
        "mcp.server.not_found",
        `MCP server "${server}" of profile "${profile}" ${problem}`,
        {
          hint: (definition ? undefined : didYouMean(server, definitions.map(({ name }) => name))) ??
            `sbx mcp servers -p ${profile} lists its servers`,
        },
      );
    }
    const { auth, url } = definition;
    const place: LoginPlace = { profile, server, url };
    return { place, auth, isAllowed: layer.logins !== false && settings.inForce(LOGIN_SETTING) === true };
  }
}

function keyOf({ profile, server }: LoginPlace): string {
  return JSON.stringify([profile, server]);
}

/** @throws {SbxError} `mcp.login.forbidden`, `mcp.login.failed` */
function requireLoginAllowed(server: string, auth: Auth, isAllowed: boolean): void {
  if (!isAllowed) {
    throw new SbxError("mcp.login.forbidden", "logins at MCP servers are switched off", {
      hint: `sbx settings explain ${LOGIN_SETTING} says by whom`,
    });
  }
  if (auth?.credential_ref !== undefined && auth.client_id === undefined) {
    throw new SbxError("mcp.login.failed", `the definition of ${server} names a credential already`, {
      hint: "remove auth.credential_ref from the definition, and log in again",
    });
  }
}
