/** Templates of one home: the one that a VM starts from, and when templates are made and removed. */
import { join } from "node:path";
import {
  type Assets,
  INITRD,
  installedName,
  KERNEL,
  LAYER,
  ROOTFS,
  verifyAssets,
} from "../../release/asset/mod.ts";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import type { BootCall, MachineInfo } from "../../session/ipc/mod.ts";
import { listEnvironments } from "../../release/environment/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import {
  type Template,
  templateId,
  type TemplateKey,
  TemplateStore,
  writeTemplate,
} from "../../machine/template/mod.ts";
import type { Accelerator, Hypervisor } from "../../machine/vm/mod.ts";

const ENABLED_SETTING = "vm.templates.enabled";
/** Error code: templates are switched off. */
const OFF = "template.off";
const MAX_GB_SETTING = "vm.templates.max_gb";
/** Most disk space of all templates without the setting, in `GiB`. */
const MAX_GB = 4;
const GIB = 1024 ** 3;
/** Time between a cold boot and the making of a template, in `ms`: the VM's first programs have priority. */
const MAKE_DELAY_MS = 3000;

/**
 * Time in which a VM has read the template that it was given, in `ms`; meanwhile
 * it is not removed to make room.
 */
const READ_MS = 30_000;
/**
 * Begin of the name of the folder for a template's machine in the run folder;
 * short, for the paths of its sockets.
 */
const MACHINE_DIR = "t-";

type Start = BootCall["start"];

/** Machine that a template is for. */
export interface TemplateFor {
  cpus: number;
  ram_mb: number;
  accelerator: Accelerator;
  assets: Assets;
}

export interface TemplatesOptions {
  home: Home;
  settings: SettingsStore;
  hypervisor: Hypervisor;
}

/** Templates of one home: which VM starts from which, and the making of missing ones. */
export class Templates {
  readonly #options: TemplatesOptions;
  readonly #store: TemplateStore;
  /** the template being made, and the ones queued after it */
  readonly #making = new Map<string, Promise<Template>>();
  /**
   * ids of templates that could not be made, or failed twice to start, and why;
   * not tried again by this service
   */
  readonly #failed = new Map<string, string>();
  /** ids of templates that failed to start once, which may have been the host's fault */
  readonly #suspect = new Set<string>();
  /** when templates were last given to a VM, by id, in `ms` of this process */
  readonly #given = new Map<string, number>();
  #cleaned: Promise<void> = Promise.resolve();

  constructor(options: TemplatesOptions) {
    this.#options = options;
    this.#store = new TemplateStore(options.home);
  }

  /** Their part of `sbx status`. */
  async status(): Promise<
    { enabled: boolean; count: number; bytes: number; making: number; problems: string[] }
  > {
    const all = await this.#store.list();
    return {
      enabled: this.#enabled,
      count: all.length,
      bytes: bytesOf(all),
      making: this.#making.size,
      problems: [...this.#failed.values()],
    };
  }

  list(): Promise<Template[]> {
    return this.#store.list();
  }

  /** How a machine is to start. Never throws: a VM without a template boots. */
  async startOf(machine: TemplateFor): Promise<Start> {
    if (!this.#enabled) return { from: "kernel", why: this.#lack ?? `${ENABLED_SETTING} is off` };
    try {
      const key = await this.#keyOf(machine);
      const failed = this.#failed.get(templateId(key));
      if (failed) return { from: "kernel", why: failed };
      const template = await this.#find(key);
      if (!template) return { from: "kernel", why: "there is no template for it yet" };
      this.#given.set(template.id, performance.now());
      return { from: "template", dir: template.imageDir };
    } catch (cause) {
      const { message } = asSbxError(cause, "looking for a template");
      return { from: "kernel", why: message };
    }
  }

  /** Notes how a machine started: removes a failed template, and makes a missing one in the background. */
  async started(machine: TemplateFor, start: Start, { started }: MachineInfo): Promise<void> {
    if (!this.#enabled || started?.by === "template") return;
    const id = templateId(await this.#keyOf(machine));
    if (start.from === "template") await this.#blame(id, start.dir, started?.why ?? "its template failed");
    if (this.#failed.has(id)) return;
    backgroundTimeout(() => this.#makeMissing(machine, id).catch((error) => log.warn(error)), MAKE_DELAY_MS);
  }

  /**
   * Makes a template, or waits for one in the making; an existing one is kept.
   *
   * @throws {SbxError} `template.off`, `vm.not_supported`, `template.failed`,
   * `template.folder`, `assets.mismatch`
   */
  async make(machine: TemplateFor): Promise<Template> {
    this.#requireEnabled();
    const key = await this.#keyOf(machine);
    const id = templateId(key);
    const before = [this.#cleaned, ...this.#making.values()];
    const making = this.#making.get(id) ?? Promise.allSettled(before).then(() => this.#make(machine, key));
    this.#making.set(id, making);
    try {
      const template = await making;
      this.#failed.delete(id);
      return template;
    } catch (cause) {
      const error = asSbxError(cause, "making a template");
      if (error.code !== OFF) this.#failed.set(id, error.message);
      throw error;
    } finally {
      if (this.#making.get(id) === making) this.#making.delete(id);
    }
  }

  /** @throws {SbxError} `template.not_found` */
  async remove(id: string): Promise<void> {
    const templates = await this.list();
    if (!templates.some((template) => template.id === id)) {
      throw new SbxError("template.not_found", `there is no template ${id}`, {
        hint: didYouMean(id, templates.map((template) => template.id)) ?? "sbx template list shows them",
      });
    }
    await this.#store.remove(id);
  }

  /**
   * Removes leftovers of earlier services, and templates that no machine of this host can start from: of
   * other programs, processors or assets. A folder shared by homes keeps them: another home may use them.
   */
  clean(): Promise<void> {
    return this.#cleaned = this.#clean();
  }

  async #clean(): Promise<void> {
    const { home } = this.#options;
    for await (const { name } of Deno.readDir(home.runDir)) {
      if (name.startsWith(MACHINE_DIR)) await Deno.remove(join(home.runDir, name), { recursive: true });
    }
    await this.#store.clean();
    for (const { id } of await this.leftovers()) await this.#store.remove(id);
  }

  /**
   * Templates that no machine of this host can start from. A folder shared by homes
   * yields an empty list: another home may use them.
   *
   * @param isGone true for a file of assets, by its name, and for an environment's disk, by
   * its hash, that is to be removed
   */
  async leftovers(isGone: (nameOrHash: string) => boolean = () => false): Promise<Template[]> {
    const { home } = this.#options;
    if (home.templatesDir !== join(home.dir, "templates")) return [];
    const all = await this.#store.list();
    const startable = await Promise.all(all.map(({ record: { key } }) => this.#canStart(key, isGone)));
    return all.filter((_, at) => !startable[at]);
  }

  async #canStart(
    { arch, cpus, ram_mb, accelerator, assets, host }: TemplateKey,
    isGone: (nameOrHash: string) => boolean,
  ): Promise<boolean> {
    const ours = await this.#options.hypervisor.identity({ arch, cpus, ramMb: ram_mb, accelerator });
    if (Object.entries(ours).some(([name, value]) => host[name as keyof typeof host] !== value)) return false;
    const { kernel, initrd, layer, rootfs } = assets;
    const parts = [
      this.#isInstalled(KERNEL, kernel, isGone),
      this.#isInstalled(INITRD, initrd, isGone),
      layer === undefined || this.#isInstalled(LAYER, layer, isGone),
    ];
    if ((await Promise.all(parts)).includes(false)) return false;
    if (await this.#isInstalled(ROOTFS, rootfs, isGone)) return true;
    const environments = await listEnvironments(this.#options.home);
    return environments.some(({ rootfs: { hash } }) => hash === rootfs && !isGone(hash));
  }

  async #isInstalled(
    name: string,
    hash: string,
    isGone: (nameOrHash: string) => boolean,
  ): Promise<boolean> {
    if (isGone(installedName(name, hash))) return false;
    const { assetsDir, sharedAssetsDir } = this.#options.home;
    const folders = [assetsDir, ...sharedAssetsDir ? [sharedAssetsDir] : []];
    const exist = folders.map((dir) =>
      Deno.stat(join(dir, installedName(name, hash))).then(() => true, () => false)
    );
    return (await Promise.all(exist)).includes(true);
  }

  /** The template for a key; removes a damaged one. @throws {SbxError} as {@linkcode TemplateStore.find} */
  async #find(key: TemplateKey): Promise<Template | undefined> {
    try {
      return await this.#store.find(key);
    } catch (error) {
      if (error instanceof SbxError && error.code === "template.damaged") {
        await this.#store.remove(templateId(key));
      }
      throw error;
    }
  }

  /** Removes a template from which a machine did not start, unless it was removed or made again since. */
  async #blame(id: string, imageDir: string, why: string): Promise<void> {
    if ((await this.#store.get(id))?.imageDir !== imageDir) return;
    if (this.#suspect.has(id)) this.#failed.set(id, why);
    this.#suspect.add(id);
    await this.#store.remove(id);
  }

  async #makeMissing(machine: TemplateFor, id: string): Promise<void> {
    if (!this.#enabled || this.#failed.has(id)) return;
    await this.make(machine);
  }

  async #make(machine: TemplateFor, key: TemplateKey): Promise<Template> {
    this.#requireEnabled();
    const { assets } = machine;
    await verifyAssets(assets);
    const existing = await this.#find(key).catch(() => undefined);
    if (existing) return existing;
    const template = await this.#write(machine, key);
    // Switched off, perhaps by corp, while it was made.
    if (!this.#enabled) await this.#store.remove(template.id);
    this.#requireEnabled();
    await this.#makeRoom(template);
    return template;
  }

  async #write({ assets, cpus, ram_mb, accelerator }: TemplateFor, key: TemplateKey): Promise<Template> {
    const { home, hypervisor } = this.#options;
    const dir = await Deno.makeTempDir({ dir: home.runDir, prefix: MACHINE_DIR });
    try {
      const { kernel, initrd, rootfs, layer } = assets;
      return await this.#store.make(key, (imageDir) =>
        writeTemplate(hypervisor, {
          dir,
          arch: assets.arch,
          cpus,
          ramMb: ram_mb,
          accelerator,
          kernel: kernel.path,
          initrd: initrd.path,
          rootfs: rootfs.path,
          layer: layer?.path,
          logs: dir,
        }, imageDir));
    } finally {
      await Deno.remove(dir, { recursive: true }).catch(ignore("removed by the next service"));
    }
  }

  /**
   * Removes the oldest templates until the rest fits the limit; not the newest, and none that a VM reads now.
   */
  async #makeRoom(newest: Template): Promise<void> {
    const setting = this.#options.settings.inForce(MAX_GB_SETTING);
    const limit = (typeof setting === "number" ? setting : MAX_GB) * GIB;
    const all = await this.#store.list();
    let bytes = bytesOf(all);
    for (const { id, bytes: freed } of all) {
      if (bytes <= limit) return;
      if (id === newest.id || this.#isRead(id)) continue;
      await this.#store.remove(id);
      bytes -= freed;
    }
  }

  #isRead(id: string): boolean {
    return performance.now() - (this.#given.get(id) ?? -Infinity) < READ_MS;
  }

  async #keyOf({ cpus, ram_mb, accelerator, assets }: TemplateFor): Promise<TemplateKey> {
    const { arch } = assets;
    return {
      arch,
      cpus,
      ram_mb,
      accelerator,
      assets: {
        kernel: assets.kernel.hash,
        initrd: assets.initrd.hash,
        rootfs: assets.rootfs.hash,
        layer: assets.layer?.hash,
      },
      host: await this.#options.hypervisor.identity({ arch, cpus, ramMb: ram_mb, accelerator }),
    };
  }

  #requireEnabled(): void {
    if (this.#enabled) return;
    if (this.#lack) throw new SbxError("vm.not_supported", `templates are not possible here: ${this.#lack}`);
    throw new SbxError(OFF, `templates are not used: ${ENABLED_SETTING} is off`, {
      hint: `sbx settings set ${ENABLED_SETTING} true`,
    });
  }

  get #enabled(): boolean {
    return this.#lack === undefined && this.#options.settings.inForce(ENABLED_SETTING) !== false;
  }

  /** Why no machine of this host can start from a template. */
  get #lack(): string | undefined {
    return this.#options.hypervisor.lackOf("templates");
  }
}

function bytesOf(templates: Template[]): number {
  return templates.reduce((sum, { bytes }) => sum + bytes, 0);
}
