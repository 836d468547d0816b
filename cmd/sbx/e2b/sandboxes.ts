/** The sandboxes of E2B clients: VMs with a time-out, made, paused, copied and ended over the API of sbx. */
import type { CreateRequest, ForkResult, VmInfo, VmStatus, VmSummary } from "../../../lib/client/api/mod.ts";
import { ignore, SbxError } from "../../../lib/base/error/mod.ts";
import { log } from "../../../lib/base/log/mod.ts";
import { backgroundInterval } from "../../../lib/base/time/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { untilRunning } from "../vm/new_vm.ts";
import { Envd } from "./envd.ts";
import { Guest } from "./guest.ts";
import { newId, newToken, type Sandbox, type Snapshot, type Store } from "./store.ts";

/** `s` for which a sandbox lives where its client does not say, as of E2B's own client. */
export const TIMEOUT_S = 300;
/** Longest time of a sandbox in `s`. */
export const TIMEOUT_MAX_S = 24 * 3600;
/** `ms` between looks for sandboxes whose time is over. */
const EXPIRY_MS = 1000;
/** Longest boot in `ms` of a sandbox whose time has not begun: its server may be gone by then. */
const BOOT_MS = 15 * 60 * 1000;
/** `ms` until the next try to end or pause a sandbox, after one that failed. */
const RETRY_MS = 60_000;
/** Sandboxes and snapshots at a time: a program that makes them in a loop would take all of the machine. */
const SANDBOXES_MAX = 256;
/** Template of sandboxes whose client names none. */
export const DEFAULT_TEMPLATES = ["base", "code-interpreter-v1"];

/** Setting that a person, or corp, switches it on with. */
export const SETTING = "app.e2b";

/** @throws {SbxError} `e2b.off` */
export async function requireAllowed(client: Client): Promise<void> {
  const { effective_value } = await client.json<{ effective_value?: unknown }>(
    "GET",
    `/settings/explain/${SETTING}`,
  );
  if (effective_value === true) return;
  throw new SbxError("e2b.off", `${SETTING} is off: no program may make VMs by E2B's API`, {
    hint: `sbx settings set ${SETTING} true switches it on`,
  });
}

/** Request for a sandbox. */
export interface SandboxRequest {
  template: string;
  timeout: number;
  metadata: Record<string, string>;
  env: Record<string, string>;
  on_timeout: Sandbox["on_timeout"];
  auto_resume: boolean;
  allows_internet: boolean;
  project?: CreateRequest["project"];
}

/** Source of a template: a profile, and an image that replaces the profile's. */
export interface Template {
  profile_id?: string;
  image?: string;
}

export class Sandboxes {
  readonly #client: Client;
  readonly #templates: ReadonlyMap<string, Template>;
  readonly #envds = new Map<string, Envd>();
  /** sandboxes whose time-out is being handled */
  readonly #ending = new Set<string>();
  /** VMs that come back, with the end of that */
  readonly #waking = new Map<string, Promise<void>>();
  /** sandboxes and snapshots that are made now */
  readonly #making = new Set<string>();
  /** unix ms of the next try, of sandboxes that did not end or pause */
  readonly #retries = new Map<string, number>();

  /** @param templates by name; other names are images of this home */
  constructor(client: Client, readonly store: Store, templates: ReadonlyMap<string, Template>) {
    this.#client = client;
    this.#templates = templates;
  }

  /** Ends or pauses sandboxes whose time is over, from now on. */
  watchTimes(): () => void {
    const timer = backgroundInterval(() => void this.expire(), EXPIRY_MS);
    return () => clearInterval(timer);
  }

  /** @throws {SbxError} `sandbox.not_found`: unknown here, whatever VMs this home has */
  find(id: string): Sandbox {
    const sandbox = this.store.get(id);
    if (sandbox) return sandbox;
    throw new SbxError("sandbox.not_found", `sandbox ${id} was not found`);
  }

  envd(sandbox: Sandbox): Envd {
    const known = this.#envds.get(sandbox.id);
    if (known) return known;
    const envd = new Envd(new Guest(this.#client, sandbox));
    this.#envds.set(sandbox.id, envd);
    return envd;
  }

  /** @throws {SbxError} `e2b.off`: switched off since the server began; `e2b.too_many` */
  create(request: SandboxRequest): Promise<Sandbox> {
    const id = newId();
    return this.#make([id], () => this.#create(id, request));
  }

  /** Makes some more. @throws {SbxError} `e2b.off`, `e2b.too_many` */
  async #make<T>(ids: string[], work: () => Promise<T>): Promise<T> {
    await requireAllowed(this.#client);
    if (!this.#hasRoom(ids)) await this.#forgetDeleted();
    if (!this.#hasRoom(ids)) {
      throw new SbxError("e2b.too_many", `a home has at most ${SANDBOXES_MAX} sandboxes and snapshots`, {
        hint: "end some: sbx list shows them",
      });
    }
    for (const id of ids) this.#making.add(id);
    try {
      return await work();
    } finally {
      for (const id of ids) this.#making.delete(id);
    }
  }

  #hasRoom(ids: string[]): boolean {
    const known = [...this.store.all(), ...this.store.snapshots()].map(({ id }) => id);
    return new Set([...known, ...this.#making, ...ids]).size <= SANDBOXES_MAX;
  }

  /** Forgets those whose VM its user has deleted. */
  async #forgetDeleted(): Promise<void> {
    const all = [...this.store.all(), ...this.store.snapshots()];
    const vms = await this.statuses();
    for (const { id, vm } of all) {
      if (vms.has(vm)) continue;
      await this.store.remove(id);
      await this.store.removeSnapshot(id);
    }
  }

  async #create(id: string, request: SandboxRequest): Promise<Sandbox> {
    const { template, env, project } = request;
    const name = `e2b-${id}`;
    const snapshot = this.store.snapshot(template);
    if (snapshot) {
      // A copy has its source's variables and rules: what would differ is refused.
      if (Object.keys(env).length > 0 || project) {
        throw new SbxError(
          "request.invalid",
          "a sandbox of a snapshot has the snapshot's variables and network",
        );
      }
      const { vms: [vm] } = await this.#fork(snapshot.vm, { name });
      return await this.#add(id, vm.id, request);
    }
    const json: CreateRequest = { name, ...this.#template(template), env, ...project && { project } };
    const vm = await this.#client.json<VmSummary>("POST", "/vms/create", { json });
    return await this.#add(id, vm.id, request);
  }

  #template(name: string): Template {
    const known = this.#templates.get(name);
    if (known) return known;
    return DEFAULT_TEMPLATES.includes(name) ? {} : { image: name };
  }

  async #add(
    id: string,
    vm: string,
    request: Pick<
      SandboxRequest,
      "template" | "timeout" | "metadata" | "on_timeout" | "auto_resume" | "allows_internet"
    >,
  ): Promise<Sandbox> {
    const { template, timeout, metadata, on_timeout, auto_resume, allows_internet } = request;
    const made = Date.now();
    const booting: Sandbox = {
      ...{ id, vm, template, metadata, on_timeout, auto_resume, allows_internet },
      token: newToken(),
      started_at: made,
      ends_at: made + BOOT_MS + timeout * 1000,
      is_paused: false,
    };
    try {
      // Before it runs: it ends also if this server ends meanwhile.
      await this.store.put(booting);
      await untilRunning(this.#client, { id: vm, name: `e2b-${id}` });
      const now = Date.now();
      // A client may have ended it meanwhile.
      const sandbox = { ...this.find(id), started_at: now, ends_at: now + timeout * 1000 };
      await this.store.put(sandbox);
      return sandbox;
    } catch (error) {
      await this.kill(booting).catch(ignore("its caller has the first failure; its time ends it"));
      throw error;
    }
  }

  #fork(vm: string, json: { name?: string; count?: number }): Promise<ForkResult> {
    return this.#client.json<ForkResult>("POST", `/vms/${vm}/fork`, { json });
  }

  /** New sandboxes from one moment of another. @throws {SbxError} `e2b.off`, `e2b.too_many` */
  fork(sandbox: Sandbox, count: number, timeout: number): Promise<Sandbox[]> {
    const ids = Array.from({ length: count }, newId);
    return this.#make(ids, async () => {
      const { vms } = await this.#fork(sandbox.vm, { name: `e2b-${ids[0]}`, ...count > 1 && { count } });
      return await Promise.all(vms.map((vm, at) => this.#add(ids[at], vm.id, { ...sandbox, timeout })));
    });
  }

  async info({ vm }: Sandbox): Promise<VmInfo> {
    return await this.#client.json<VmInfo>("GET", `/vms/${vm}/info`);
  }

  /** States by VM. */
  async statuses(): Promise<Map<string, VmSummary>> {
    const { vms } = await this.#client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
    return new Map(vms.map((vm) => [vm.id, vm]));
  }

  async setTimeout(sandbox: Sandbox, seconds: number): Promise<void> {
    await this.store.put({ ...this.find(sandbox.id), ends_at: Date.now() + seconds * 1000 });
  }

  /** @returns false if it was paused before */
  async pause(sandbox: Sandbox, keepsMemory = true): Promise<boolean> {
    if (sandbox.is_paused) return false;
    if (keepsMemory) await this.#suspend(sandbox.vm);
    else await this.#client.json("POST", `/vms/${sandbox.vm}/stop`);
    this.#forget(sandbox.id);
    await this.store.put({ ...this.find(sandbox.id), is_paused: true });
    return true;
  }

  /** Writes the VM to disk, or, where this host cannot do that, stops its processors. */
  async #suspend(vm: string): Promise<void> {
    try {
      await this.#client.json("POST", `/vms/${vm}/suspend`);
    } catch (error) {
      if (!(error instanceof SbxError) || ["vm.not_found", "gateway.unreachable"].includes(error.code)) {
        throw error;
      }
      log.info(`VM ${vm} is paused in memory: ${error.message}`);
      await this.#client.json("POST", `/vms/${vm}/pause`);
    }
  }

  /** Has it run for `seconds` from now on; longer where it ends later anyway. */
  async connect(sandbox: Sandbox, seconds: number): Promise<Sandbox> {
    await this.#wake(sandbox.vm);
    const { ends_at } = this.find(sandbox.id);
    const least = Date.now() + seconds * 1000;
    const now = {
      ...this.find(sandbox.id),
      is_paused: false,
      ends_at: sandbox.is_paused ? least : Math.max(ends_at, least),
    };
    await this.store.put(now);
    return now;
  }

  /** Any number of requests wake a sandbox once. */
  #wake(vm: string): Promise<void> {
    const waking = this.#waking.get(vm) ?? this.#resume(vm).finally(() => this.#waking.delete(vm));
    this.#waking.set(vm, waking);
    return waking;
  }

  async #resume(vm: string): Promise<void> {
    const { status } = await this.#client.json<{ status: VmStatus }>("GET", `/vms/${vm}/status`);
    if (status === "Suspended" || status === "Paused") await this.#client.json("POST", `/vms/${vm}/resume`);
    else if (status === "Stopped") await this.#client.json("POST", `/vms/${vm}/start`);
  }

  /** A paused one resumes if its client asked for that. @throws {SbxError} `sandbox.paused` */
  async awake(sandbox: Sandbox): Promise<Sandbox> {
    if (!sandbox.is_paused) return sandbox;
    if (sandbox.auto_resume) return await this.connect(sandbox, TIMEOUT_S);
    throw new SbxError("sandbox.paused", `sandbox ${sandbox.id} is paused`);
  }

  async kill(sandbox: Sandbox): Promise<void> {
    this.#forget(sandbox.id);
    await this.#delete(sandbox.vm);
    await this.store.remove(sandbox.id);
  }

  async #delete(vm: string): Promise<void> {
    await this.#client.json("DELETE", `/vms/${vm}/delete`, { query: { force: "true" } }).catch((error) => {
      if (error.code !== "vm.not_found") throw error;
    });
  }

  /**
   * Ends the programs of all sandboxes; their VMs stay, and end when their time is over and this runs again.
   */
  close(): void {
    for (const id of [...this.#envds.keys()]) this.#forget(id);
  }

  #forget(id: string): void {
    this.#envds.get(id)?.close();
    this.#envds.delete(id);
  }

  /** A copy that stays as it is, of which sandboxes are made. @throws {SbxError} `e2b.off`, `e2b.too_many` */
  async snapshot(sandbox: Sandbox, name?: string): Promise<Snapshot> {
    if (name !== undefined && (this.#templates.has(name) || DEFAULT_TEMPLATES.includes(name))) {
      throw new SbxError("request.invalid", `"${name}" is a template`, {
        hint: "name the snapshot otherwise: sandboxes of the template would be copies of it",
      });
    }
    const id = newId();
    return await this.#make([id], () => this.#snapshot(id, sandbox, name));
  }

  async #snapshot(id: string, sandbox: Sandbox, name?: string): Promise<Snapshot> {
    const { vms: [vm] } = await this.#fork(sandbox.vm, { name: `e2b-${id}` });
    const snapshot = {
      id,
      vm: vm.id,
      sandbox: sandbox.id,
      names: name === undefined ? [] : [name],
      created_at: Date.now(),
    };
    try {
      // Before it is suspended: a client can remove it also if this server ends meanwhile.
      await this.store.putSnapshot(snapshot);
      await this.#suspend(vm.id);
      return snapshot;
    } catch (error) {
      await this.removeSnapshot(snapshot).catch(
        ignore("its caller has the first failure; sbx list shows the VM"),
      );
      throw error;
    }
  }

  async removeSnapshot({ id, vm }: Snapshot): Promise<void> {
    await this.#delete(vm);
    await this.store.removeSnapshot(id);
  }

  /** Ends or pauses each sandbox whose time is over. */
  async expire(now = Date.now()): Promise<void> {
    const over = this.store.all().filter(({ id, ends_at, is_paused }) =>
      !is_paused && ends_at <= now && !this.#ending.has(id) && (this.#retries.get(id) ?? 0) <= now
    );
    await Promise.all(over.map(async (sandbox) => {
      this.#ending.add(sandbox.id);
      try {
        if (sandbox.on_timeout === "pause") await this.pause(sandbox);
        else await this.kill(sandbox);
        this.#retries.delete(sandbox.id);
      } catch (error) {
        // Deleted in another way, by its user.
        if ((error as SbxError).code === "vm.not_found") return await this.store.remove(sandbox.id);
        this.#retries.set(sandbox.id, now + RETRY_MS);
        log.warn(`sandbox ${sandbox.id}, whose time is over, goes on: ${(error as Error).message}`);
      } finally {
        this.#ending.delete(sandbox.id);
      }
    }));
  }
}
