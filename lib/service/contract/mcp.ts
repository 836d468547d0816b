/**
 * MCP servers of profiles, reached through a running VM of the profile (docs/design/contracts/08-mcp.md §8).
 */
import type {
  McpCall,
  McpCallResult,
  McpChange,
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
import { corpLayer } from "../../home/mod.ts";
import { McpLogins } from "./mcp_login.ts";
import type { ContractRefresh } from "./refresh.ts";
import type { Supervisor } from "../vm/supervisor.ts";
import { comesBack } from "../vm/suspension.ts";
import type { Registry } from "../vm/registry.ts";
import type { Trace } from "../run/exec.ts";
import type { Vm } from "../vm/vm.ts";

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

  /** Calls a tool under the policy of a VM. @throws {SbxError} `mcp.conflict`, `policy.blocked`, `mcp.failed` */
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

  /** Reads the servers of a profile again, and reconnects them in its running VMs. @throws {SbxError} `mcp.server.not_found` */
  async refresh(profileId: string, server: string): Promise<McpRefreshed> {
    const { profile, corp } = await this.#definitions(profileId);
    if (!Object.hasOwn(profile, server) && !Object.hasOwn(corp, server)) {
      throw new SbxError("mcp.server.not_found", `profile "${profileId}" has no MCP server "${server}"`, {
        hint: `sbx mcp servers -p ${profileId} lists its servers`,
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
