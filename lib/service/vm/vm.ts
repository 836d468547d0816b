/** A VM in the service's memory: the actions it allows now, and its views for clients. */
import type { VmAction, VmInfo, VmStatus, VmSummary, VmWork } from "../../client/api/mod.ts";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { runsReplacedProgram } from "../../base/process/mod.ts";
import { holdLine, isStill } from "../../detection/response/mod.ts";
import { Room } from "../../repo/mod.ts";
import type { MachineInfo } from "../../session/ipc/mod.ts";
import { heldBack, PAUSED_HINT, readHoldSync, type SessionPaths, type VmRecord } from "../../session/mod.ts";
import type { StillRecord } from "../../session/offline/mod.ts";
import type { Features, Hypervisor } from "../../machine/vm/mod.ts";
import { guestPath } from "../run/workspace.ts";
import type { VmProcess } from "./vm_process.ts";

/**
 * Actions that each state allows (docs/design/contracts/02-http.md §2); {@linkcode actionsOf} narrows them.
 */
const ACTIONS: Record<VmStatus, VmAction[]> = {
  Booting: ["stop", "delete"],
  Running: ["exec", "shell", "stop", "pause", "suspend", "fork", "save", "delete"],
  Paused: ["resume", "stop", "delete"],
  Stopped: ["start", "fork", "save", "set", "delete"],
  Suspended: ["resume", "start", "stop", "fork", "save", "delete"],
  // `set` gives a VM its old image back, if the new one does not boot.
  Defunct: ["start", "set", "delete"],
};

/** Not for the VM of an MCP server, which starts and ends with the VM that uses the server. */
const COMPANION_LACKS: VmAction[] = ["start", "fork", "save", "set"];

/** Not for a VM with a live folder: the host goes on changing the folder, of which there is only one. */
const LIVE_LACKS: VmAction[] = ["suspend", "fork"];

type Abilities = Pick<Hypervisor, "features" | "lackOf">;

export interface Vm {
  record: VmRecord;
  paths: SessionPaths;
  /** connection to sbx-process; usable while the VM is alive */
  process: VmProcess;
  state: MachineInfo;
  /** the record cannot be read, and `record` holds defaults in its place */
  damaged?: true;
  /** life-cycle operation under way; any other is refused */
  busy?: string;
  /** reason why its latest contract is not active */
  problem?: string;
  /** settles when the boot under way succeeds or fails */
  booting?: Promise<void>;
  /** identifies the current process: reports of a replaced one are ignored */
  watch?: symbol;
  /** writes to the ledger while the VM has no process; closed before it gets one */
  still?: { use<T>(work: (record: StillRecord) => Promise<T>): Promise<T>; close(): Promise<void> };
  /** settles when the suspension under way ends */
  suspending?: Promise<void>;
  /** the resume under way, and its reason in words */
  waking?: { why?: string; done: Promise<void> };
}

export function isAlive({ state }: MachineInfo): boolean {
  return state === "Booting" || state === "Running" || state === "Paused";
}

/** True for a temporary VM that has ended without being deleted. */
export function isLeftBehind({ record, state }: Pick<Vm, "record" | "state">): boolean {
  return !record.persistent && !isAlive(state) && state.state !== "Suspended";
}

/**
 * True for a VM whose client will not return: of `POST /run` through a previous service, or a temporary one
 * that never booted.
 */
export function isAbandoned({ record, state, damaged }: Pick<Vm, "record" | "state" | "damaged">): boolean {
  if (record.persistent || record.parent || record.forked_from || damaged) return false;
  if (state.state === "Suspended") return false;
  if (isAlive(state)) return record.scratch_gb === 0;
  return record.scratch_gb === 0 || state.boot_stages.length === 0;
}

/** True if a fork would copy the VM's memory, and continue from this moment instead of booting. */
function hasMemory({ state: { state } }: Pick<Vm, "state">): boolean {
  return state === "Running" || state === "Suspended";
}

/** Actions that a VM allows now, on a hypervisor with these features. */
export function actionsOf(vm: Vm, features: Features): VmAction[] {
  return ACTIONS[vm.state.state].filter((action) => {
    if (vm.damaged) return action === "delete";
    if (heldActions(vm).includes(action)) return false;
    if (vm.record.live && LIVE_LACKS.includes(action)) return false;
    if (action === "pause") return features.pause;
    if (action === "suspend") return features.save_state;
    if (action === "fork" && hasMemory(vm) && !features.live_fork) return false;
    if (vm.record.parent && COMPANION_LACKS.includes(action)) return false;
    if (action === "save") return !vm.record.persistent;
    return true;
  });
}

/**
 * Actions that a VM lacks while a finding holds it back: a copy would be free, and a still VM stays still.
 */
function heldActions({ state: { response } }: Pick<Vm, "state">): VmAction[] {
  if (!response) return [];
  return isStill(response) ? ["fork", "start", "resume"] : ["fork"];
}

/**
 * @throws {SbxError} `vm.held`, `vm.not_supported`, `vm.paused`, `vm.wrong_state`: the VM lacks this action
 * now
 */
export function requireAction(vm: Vm, action: VmAction, hypervisor: Abilities): void {
  const legal = actionsOf(vm, hypervisor.features);
  if (!legal.includes(action)) throw refusal(vm, action, hypervisor, legal);
}

/**
 * The error for an action that a VM lacks now. Reasons that outlast its state come first: advice to change
 * the state would not help.
 */
function refusal(vm: Vm, action: VmAction, hypervisor: Abilities, legal: readonly VmAction[]): SbxError {
  const { name, live, parent } = vm.record;
  const { state, last_error, response } = vm.state;
  const isUse = action === "exec" || action === "shell";
  if (response && (heldActions(vm).includes(action) || isUse && isStill(response))) {
    return heldBack(name, response);
  }
  if (live && LIVE_LACKS.includes(action)) {
    return new SbxError("vm.not_supported", `"${name}" has a folder of this host: no ${action}`, {
      hint: "a VM that got a copy of the folder can (--from-dir)",
    });
  }
  const suspendLack = action === "suspend" && hypervisor.lackOf("save_state");
  if (suspendLack) return new SbxError("vm.not_supported", `this host cannot suspend VMs: it ${suspendLack}`);
  const forkLack = action === "fork" && hasMemory(vm) && !parent && hypervisor.lackOf("live_fork");
  if (forkLack) {
    const kind = state === "Suspended" ? "with its memory" : "that runs";
    return new SbxError("vm.not_supported", `this host cannot fork a VM ${kind}: it ${forkLack}`, {
      hint: `sbx stop ${name} first: a stopped VM can be forked on every host`,
    });
  }
  if (state === "Paused" && last_error) {
    return new SbxError("vm.paused", `"${name}" is paused: ${last_error}`, { hint: PAUSED_HINT });
  }
  if (action === "set" && state !== "Booting") {
    return new SbxError(
      "vm.wrong_state",
      `"${name}" is ${state}: its size and image change while it is stopped`,
      { hint: state === "Suspended" ? `sbx stop ${name} gives its memory up` : `sbx stop ${name}` },
    );
  }
  const why = state === "Suspended" && last_error ? ` (${last_error})` : "";
  return new SbxError("vm.wrong_state", `"${name}" is ${state}${why}: ${action} is not possible now`, {
    hint: `possible now: ${legal.join(", ")}`,
  });
}

/** Describes a guest's problem: no network, unrecorded programs, or services that have failed. */
function problemOf(
  { state: { network_error, activity_error, failed_services = [] } }: Vm,
): string | undefined {
  if (network_error) return `its guest has no network: ${network_error}`;
  if (activity_error) return `the programs of its guest are not recorded: ${activity_error}`;
  if (failed_services.length === 0) return undefined;
  return failed_services.map(({ name, reason, is_unhealthy }) =>
    `its service ${name} ${is_unhealthy ? "is unhealthy" : "has failed"}: ${reason}`
  ).join("; ");
}

/** Space that a VM's disk takes on the host, in `bytes`. */
function diskBytes({ record: { scratch_gb }, paths }: Pick<Vm, "record" | "paths">): number {
  if (scratch_gb === 0) return 0;
  try {
    return (Deno.statSync(paths.scratch).blocks ?? 0) * 512;
  } catch {
    // One VM that is being removed, or is damaged, must not break the list of all.
    return 0;
  }
}

/** @throws {SbxError} `vm.held`: a finding holds it back, and a copy would be free */
export function requireFree({ record, paths }: Pick<Vm, "record" | "paths">): void {
  // Read from the file: `state` may lag behind a finding of a moment ago.
  const hold = readHoldSync(paths.response, {});
  if (hold) throw heldBack(record.name, hold);
}

export function summaryOf(vm: Vm, features: Features): VmSummary {
  const { id, name, profile_id, persistent, parent, cpus, ram_mb, scratch_gb, limits, environment, agent } =
    vm.record;
  const { state, last_error, suspended_by, response } = vm.state;
  const held = response && holdLine(name, response);
  const error = last_error ?? held ?? (isAlive(vm.state) ? problemOf(vm) : undefined);
  return {
    id,
    name,
    profile_id,
    status: state,
    persistent,
    ...(parent && { parent: { id: parent.id, server: parent.server } }),
    available_actions: actionsOf(vm, features),
    cpus,
    ram_mb,
    disk: { size_gb: scratch_gb, used_bytes: diskBytes(vm) },
    ...(limits && { limits }),
    ...(environment && { image_reference: environment.reference }),
    ...(agent !== undefined && { agent }),
    ...(error && { last_error: error }),
    ...(isAlive(vm.state) && vm.state.failed_services?.some((each) => each.is_unhealthy) && {
      unhealthy: true as const,
    }),
    ...(suspended_by && { suspended_by }),
    ...(response && { response }),
  };
}

/** The folder that a VM works on, and its last activity. */
export async function workOf({ record: { live }, paths, state }: Vm): Promise<VmWork> {
  const room = new Room(paths.repository);
  const [brought, untaken, times, isOld] = await Promise.all([
    // A damaged record is reported where it is used.
    room.read().catch(() => undefined),
    room.untaken(),
    Promise.all(["", "-wal"].map((end) => ifFound(Deno.stat(paths.ledger + end)))),
    isAlive(state) && runsReplacedProgram(state.pid),
  ]);
  const sources = brought?.sources ?? [];
  const dir = live?.dir ?? sources[0]?.dir;
  const place = live ? guestPath(live.name) : sources[0]?.place;
  const active = Math.max(...times.map((file) => file?.mtime?.getTime() ?? 0));
  return {
    ...dir !== undefined && place !== undefined && { folder: { dir, place, ...untaken && { untaken } } },
    ...sources.length > 0 &&
      {
        repositories: sources.map(({ name, dir, place, is_read_only = false, is_live = false, units }) => ({
          name,
          dir,
          place,
          is_repository: units[0].is_repository,
          is_read_only,
          is_live,
          branches: Object.keys(units[0].pulled),
        })),
      },
    ...active > 0 && { active_at: new Date(active).toISOString() },
    ...isOld && { old_program: true as const },
  };
}

export function infoOf(vm: Vm, hypervisor: Abilities & { name: string }): VmInfo {
  const { created_at, id, forked_from, assets, live, environment, devcontainer, credentials, before } =
    vm.record;
  const { accelerator, boot_stages, pid, started } = vm.state;
  return {
    ...summaryOf(vm, hypervisor.features),
    created_at,
    session_id: id,
    image: {
      ...(assets.image && { profile_id: assets.image }),
      version: assets.version,
      ...(environment && { reference: environment.reference, digest: environment.digest }),
      ...(environment?.ports && { ports: environment.ports }),
      ...(before && { before: { reference: before.reference, digest: before.digest } }),
      ...(assets.before !== undefined && { is_new: true as const }),
    },
    ...(devcontainer && { devcontainer }),
    ...(credentials && { credentials }),
    arch: assets.arch,
    ...(forked_from && { forked_from }),
    ...(accelerator && { accelerator }),
    ...(started && { started_by: started.by, ...(started.why && { started_why: started.why }) }),
    hypervisor: hypervisor.name,
    features: hypervisor.features,
    ...(isAlive(vm.state) && pid > 0 && { pid }),
    workspace: vm.paths.workspace,
    ...(live && { live: { dir: live.dir, place: guestPath(live.name), is_repository: live.is_repository } }),
    logs: vm.paths.logs,
    boot_stages,
  };
}
