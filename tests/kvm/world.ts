/** What scenarios share: a home of sbx in the machine with KVM, and a VM in it. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import type { Parsed } from "../helper/json.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

/** A part of the product that is run under KVM. */
export interface Scenario {
  name: string;
  /** longest time in `s`; five minutes where it is absent */
  seconds?: number;
  /** it runs where a pattern names it, and not with the whole list */
  onRequest?: true;
  /** @returns a remark, with times and counts that were seen */
  run(world: World): Promise<string | void>;
}

/** Result of a scenario, one line of the file that the host reads. */
export interface Outcome {
  name: string;
  ok: boolean;
  seconds: number;
  /** the scenario's remark, or its error */
  text: string;
  /** it failed the first time */
  isSecond?: true;
  /** its machine ended meanwhile */
  isLost?: true;
}

/** A VM of `sbx info --json`. */
export type Info = Parsed;

/** Largest difference of a guest's clock from its host's, in `s`. */
const CLOCK_MAX = 1;

/** Lines of a guest's kernel about a clock or a processor that went wrong. */
const COMPLAINTS = "tsc unstable|marking.*unstable|bug: soft lockup|rcu: info";

/** Name of the VM that lives through most scenarios. */
export const DEV = "dev";

export class World {
  private constructor(readonly sbx: Sbx, readonly assets: string) {}

  static async make(): Promise<World> {
    const assets = Deno.env.get("SBX_TEST_ASSETS_DIR")!;
    const home = await Deno.makeTempDir({ dir: "/var", prefix: "sbx-" });
    const env = {
      SBX_TEMPLATES_DIR: join(home, "templates"),
      SBX_TIME_FACTOR: Deno.env.get("SBX_TIME_FACTOR") ?? "1",
    };
    return new World(await Sbx.make({ home, spare: false, env }), assets);
  }

  /** Path of one of the installed files, by the beginning of its name. */
  asset(prefix: string): string {
    const name = Array.from(Deno.readDirSync(this.assets), ({ name }) => name).find((name) =>
      name.startsWith(prefix)
    );
    if (name === undefined) throw new Error(`${this.assets} has no ${prefix}*`);
    return join(this.assets, name);
  }

  /**
   * A request through the gateway, which must succeed: a command of the CLI takes seconds in this machine.
   */
  async api(method: string, path: string, json?: unknown): Promise<Parsed> {
    const { status, body } = await this.sbx.api(method, path, json);
    if (status !== 200) throw new Error(`${method} ${path} → ${status}: ${JSON.stringify(body)}`);
    return body;
  }

  info(name: string): Promise<Info> {
    return this.api("GET", `/vms/${name}/info`);
  }

  /** Does something to a VM, and waits until it is running. @returns its details */
  async running(name: string, action: () => Promise<unknown>): Promise<Info> {
    await action();
    let info: Info;
    await eventually(`${name} is running`, async () => {
      info = await this.info(name);
      if (info.status === "Defunct") throw new Error(`${name}: ${info.last_error}`);
      return info.status === "Running";
    });
    return info;
  }

  /** Makes a VM, in place of one of that name that a scenario left. */
  async create(name: string, more: Record<string, unknown> = {}): Promise<Info> {
    await this.clear(name);
    return await this.running(name, () => this.api("POST", "/vms/create", { name, ...more }));
  }

  /** Does one of `resume`, `suspend`, … to a VM. */
  async act(action: string, name: string): Promise<void> {
    await this.api("POST", `/vms/${name}/${action}`);
  }

  /** Deletes VMs, where they exist. */
  async clear(...names: string[]): Promise<void> {
    const { vms } = await this.api("GET", "/vms/list");
    for (const { name } of vms.filter(({ name }: Info) => names.includes(name))) {
      await this.api("DELETE", `/vms/${name}/delete?force=true`);
    }
  }

  async set(settings: Record<string, unknown>): Promise<void> {
    await this.api("PATCH", "/settings/edit", settings);
  }

  /** Runs a shell line in a VM, which must succeed. @returns its output, without the space around it */
  async sh(name: string, command: string): Promise<string> {
    const { exit_code, stdout, stderr } = await this.api("POST", `/vms/${name}/exec`, { command });
    if (exit_code !== 0) throw new Error(`${command} in ${name} → ${exit_code}\n${stdout}${stderr}`);
    return stdout.trim();
  }

  /** The shared VM; made, or started again, where it does not run. */
  async dev(): Promise<Info> {
    const { vms } = await this.api("GET", "/vms/list");
    const found = vms.find(({ name }: Info) => name === DEV);
    if (found?.status === "Running") return await this.info(DEV);
    return await (found ? this.running(DEV, () => this.act("start", DEV)) : this.create(DEV));
  }

  /** Requires KVM, and a guest whose clock is right, and which cannot run machines itself. */
  async requireKvm(name: string, startedBy: string): Promise<Info> {
    const info = await this.info(name);
    assertEquals([info.accelerator, info.started_by], ["kvm", startedBy], info.started_why);
    await this.requireGuest(name);
    return info;
  }

  /**
   * Requires a guest with the processors, clock and features of one under KVM.
   * @returns how far its clock is off, in `s`
   */
  async requireGuest(name: string): Promise<number> {
    const before = Date.now() / 1000;
    const said = await this.sh(
      name,
      "date +%s.%N; nproc; cat /sys/devices/system/clocksource/clocksource0/current_clocksource; " +
        `grep -c -w -E 'svm|vmx' /proc/cpuinfo; dmesg | grep -i -E '${COMPLAINTS}'; true`,
    );
    const after = Date.now() / 1000;
    const [date, processors, clock, virtualization, ...complaints] = said.split("\n");
    assertEquals([clock, virtualization, complaints], ["kvm-clock", "0", []], said);
    assertEquals(Number(processors), navigator.hardwareConcurrency);
    const off = Math.max(before - Number(date), Number(date) - after, 0);
    assert(off <= CLOCK_MAX, `its clock is ${off.toFixed(2)} s off`);
    return off;
  }
}

/** Stages of a VM's start: each name with the `ms` since the stage before. */
export function stagesOf({ boot_stages }: Info): string {
  let last = 0;
  return boot_stages.map(({ name, ms }: { name: string; ms: number }) => {
    const took = Math.round(ms - last);
    last = ms;
    return `${name} ${took}`;
  }).join(", ");
}

/** @param time in `s` */
export function rest(time: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, time * 1000));
}
