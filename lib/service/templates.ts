import { join } from "node:path";
import { type Assets, installedName, ROOTFS, verifyAssets } from "../asset/mod.ts";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundTimeout } from "../base/time/mod.ts";
import type { BootCall, MachineInfo } from "../ipc/mod.ts";
import type { SettingsStore } from "../settings/mod.ts";
import {
  type Template,
  templateId,
  type TemplateKey,
  TemplateStore,
  writeTemplate,
} from "../template/mod.ts";
import type { Accelerator, Hypervisor } from "../vm/mod.ts";

const ENABLED_SETTING = "vm.templates.enabled";
const MAX_GB_SETTING = "vm.templates.max_gb";
/** Most disk space of all templates without the setting, in `GiB`. */
const MAX_GB = 4;
const GIB = 1024 ** 3;
/** Time between a cold boot and the making of a template, in `ms`: the VM's first programs have priority. */
const MAKE_DELAY_MS = 3000;

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

/** Templates of one home: which VM starts from which, and the making of those that are missing. */
export class Templates {
  readonly #options: TemplatesOptions;
  readonly #store: TemplateStore;
  /** the template being made, and those that are to be made after it */
  readonly #making = new Map<string, Promise<Template>>();
  /** ids of templates that could not be made, or did not start, and why; not tried again by this service */
  readonly #failed = new Map<string, string>();

  constructor(options: TemplatesOptions) {
    this.#options = options;
    this.#store = new TemplateStore(options.home);
  }

  /** What `sbx status` says about them. */
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
    if (!this.#enabled) return { from: "kernel", why: `${ENABLED_SETTING} is off` };
    try {
      const key = await this.#keyOf(machine);
      const failed = this.#failed.get(templateId(key));
      if (failed) return { from: "kernel", why: failed };
      const template = await this.#store.find(key);
      if (template) return { from: "template", dir: template.imageDir };
      return { from: "kernel", why: "there is no template for it yet" };
    } catch (cause) {
      const { message } = asSbxError(cause, "looking for a template");
      return { from: "kernel", why: message };
    }
  }

  /** Learns how a machine started: a template that failed is removed, and one that is missing is made in the background. */
  async started(machine: TemplateFor, start: Start, { started }: MachineInfo): Promise<void> {
    if (!this.#enabled || started?.by === "template") return;
    const key = await this.#keyOf(machine);
    const id = templateId(key);
    if (start.from === "template") this.#failed.set(id, started?.why ?? "its template failed");
    // Also a damaged one, which could not be found.
    await this.#store.remove(id);
    if (this.#failed.has(id) || this.#making.has(id)) return;
    backgroundTimeout(() => this.make(machine).catch((error) => log.warn(error)), MAKE_DELAY_MS);
  }

  /**
   * Makes a template, or waits for the one that is being made.
   *
   * @throws {SbxError} `template.off`, `template.failed`, `assets.mismatch`
   */
  async make(machine: TemplateFor): Promise<Template> {
    if (!this.#enabled) {
      throw new SbxError("template.off", `templates are not used: ${ENABLED_SETTING} is off`, {
        hint: `sbx settings set ${ENABLED_SETTING} true`,
      });
    }
    const key = await this.#keyOf(machine);
    const id = templateId(key);
    const before = [...this.#making.values()];
    const making = this.#making.get(id) ?? Promise.allSettled(before).then(() => this.#make(machine, key));
    this.#making.set(id, making);
    try {
      const template = await making;
      this.#failed.delete(id);
      return template;
    } catch (cause) {
      const { message } = asSbxError(cause, "making a template");
      this.#failed.set(id, message);
      throw cause;
    } finally {
      this.#making.delete(id);
    }
  }

  /** @throws {SbxError} `template.not_found` */
  async remove(id: string): Promise<void> {
    if (!(await this.#store.list()).some((template) => template.id === id)) {
      throw new SbxError("template.not_found", `there is no template ${id}`, {
        hint: "sbx template list shows them",
      });
    }
    await this.#store.remove(id);
  }

  /** Removes what no machine of this host can start from: unfinished ones, those of other programs, processors or assets. */
  async clean(): Promise<void> {
    await this.#store.clean();
    for (const { id, record: { key } } of await this.#store.list()) {
      const { cpus, ram_mb, accelerator } = key;
      const host = await this.#options.hypervisor.identity({ cpus, ramMb: ram_mb, accelerator });
      const isOurs = Object.entries(host).every(([name, value]) =>
        key.host[name as keyof typeof host] === value
      );
      const rootfs = join(this.#options.home.assetsDir, installedName(ROOTFS, key.assets.rootfs));
      const isInstalled = await Deno.stat(rootfs).then(() => true, () => false);
      if (!isOurs || !isInstalled) await this.#store.remove(id);
    }
  }

  async #make(machine: TemplateFor, key: TemplateKey): Promise<Template> {
    const { home, hypervisor } = this.#options;
    const { assets, cpus, ram_mb, accelerator } = machine;
    await verifyAssets(assets);
    const dir = await Deno.makeTempDir({ dir: home.runDir, prefix: "t" });
    try {
      const { kernel, initrd, rootfs } = assets;
      const template = await this.#store.make(key, (imageDir) =>
        writeTemplate(hypervisor, {
          dir,
          cpus,
          ramMb: ram_mb,
          accelerator,
          kernel: kernel.path,
          initrd: initrd.path,
          rootfs: rootfs.path,
          logs: dir,
        }, imageDir));
      await this.#makeRoom(template);
      return template;
    } finally {
      await Deno.remove(dir, { recursive: true }).catch(() => {});
    }
  }

  /** Removes the templates that were used least recently until the rest fits the limit. */
  async #makeRoom(newest: Template): Promise<void> {
    const setting = this.#options.settings.inForce(MAX_GB_SETTING);
    const limit = (typeof setting === "number" ? setting : MAX_GB) * GIB;
    const all = await this.#store.list();
    let bytes = bytesOf(all);
    for (const { id, bytes: freed } of all) {
      if (bytes <= limit) return;
      if (id === newest.id) continue;
      await this.#store.remove(id);
      bytes -= freed;
    }
  }

  async #keyOf({ cpus, ram_mb, accelerator, assets }: TemplateFor): Promise<TemplateKey> {
    return {
      cpus,
      ram_mb,
      accelerator,
      assets: { kernel: assets.kernel.hash, initrd: assets.initrd.hash, rootfs: assets.rootfs.hash },
      host: await this.#options.hypervisor.identity({ cpus, ramMb: ram_mb, accelerator }),
    };
  }

  get #enabled(): boolean {
    return this.#options.settings.inForce(ENABLED_SETTING) !== false;
  }
}

function bytesOf(templates: Template[]): number {
  return templates.reduce((sum, { bytes }) => sum + bytes, 0);
}
