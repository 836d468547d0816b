/** kill −9 of the programs of a VM that is forked, and what must hold afterwards. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { killAll, leftOfMachines, untilNoticed, type Victim } from "./kill.ts";
import type { Random } from "./random.ts";
import { eventually, Sbx } from "./sbx.ts";

/** The VM that every moment hits, and its copy. */
const VM = "victim";
const FORK = "fork";
/** Longest time in `ms` after which the program is killed: a fork runs before. */
const MOMENT_MS = 3000;
const VICTIMS: readonly Victim[] = [
  "service",
  "sbx-process",
  "qemu-system",
  "virtiofsd",
  "vhost-device-vsock",
];
/**
 * Counts into a file that stays open, from 1 and without a gap; costs a guest less than a shell that sleeps.
 */
const COUNT = `import itertools, time
with open("/workspace/count", "w", 1) as file:
  for n in itertools.count(1):
    print(n, file=file)
    time.sleep(0.05)`;

/** A home with one VM that counts, and has a mark in its memory and the same one on its disk. */
export class ForkFaults {
  readonly #sbx: Sbx;
  readonly #id: string;
  #mark = 0;

  private constructor(sbx: Sbx, id: string) {
    this.#sbx = sbx;
    this.#id = id;
  }

  static async make(): Promise<ForkFaults> {
    const home = await Deno.makeTempDir({ prefix: "sbx-" });
    const sbx = await Sbx.make({ home, spare: false, env: { SBX_TEMPLATES_DIR: join(home, "templates") } });
    await sbx.ok("template", "make");
    await sbx.ok("create", VM);
    return new ForkFaults(sbx, JSON.parse(await sbx.ok("info", VM, "--json")).id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sbx.dispose();
  }

  /** One kill at a random moment, then everything that must hold. @returns what was done */
  async strike(random: Random): Promise<string> {
    const victim = random.pick(VICTIMS);
    const ms = random.below(MOMENT_MS);
    await this.#prepare();
    const struck = this.#sbx.cli("fork", VM, FORK);
    await new Promise((resolve) => setTimeout(resolve, ms));
    const hit = await killAll(this.#sbx, VM, victim);
    const { code } = await struck;
    await untilNoticed(victim, hit);
    const found = await this.#check(victim, hit);
    return `${victim} after ${ms} ms, ${hit} killed, exit code ${code}, ${found}`;
  }

  /** A program that counts, and a new mark on the disk and in memory. */
  async #prepare(): Promise<void> {
    const sbx = this.#sbx;
    if (await this.#status(VM) !== "Running") await sbx.ok("start", VM);
    const mark = `mark-${++this.#mark}`;
    const begin = `pkill python3; rm -f /workspace/count; nohup python3 -c '${COUNT}' >/dev/null 2>&1 & ` +
      `echo ${mark} >/root/mark; echo ${mark} >/run/mark; sync`;
    await sbx.ok("exec", VM, "--", "sh", "-c", begin);
    await eventually("it counts", async () => (await this.#counted(VM)).length > 0);
  }

  /**
   * The source goes on, unless it was hit itself, and starts with its disk. The copy is not there, or it is
   * whole. All records verify, and nothing is left.
   * @returns both VMs as they were found
   */
  async #check(victim: Victim, hit: number): Promise<string> {
    const found = await this.#atRest(VM);
    if (victim === "service" || hit === 0) assertEquals(found, "Running", "the source");
    if (found === "Running") await this.#requireWhole(VM);
    const copy = await this.#atRest(FORK);
    const verified = [this.#id];
    if (copy !== "none") {
      verified.push(await this.#sessionOf(FORK));
      if (copy === "Suspended") await this.#sbx.ok("resume", FORK);
      // Machines of both VMs may have been hit; one that never began keeps its memory.
      if (copy !== "Defunct") await this.#requireWhole(FORK);
      await this.#sbx.ok("delete", FORK);
    }
    if (found !== "Running") {
      await this.#sbx.ok("start", VM);
      assertEquals(
        await this.#sbx.ok("exec", VM, "--", "cat", "/root/mark"),
        `mark-${this.#mark}\n`,
        "its disk",
      );
    }
    await this.#requireClean(verified);
    return `source ${found}, copy ${copy}`;
  }

  async #atRest(vm: string): Promise<string> {
    await eventually(`${vm} has come to rest`, async () => {
      const now = await this.#status(vm);
      // A machine that was killed counts as running until its process has seen the end.
      return now === "Running"
        ? (await this.#sbx.cli("exec", vm, "--", "true")).code === 0
        : now !== "Booting";
    });
    return await this.#status(vm);
  }

  /** Disk and memory are of one moment, and the program counts on without a gap. */
  async #requireWhole(vm: string): Promise<void> {
    const marks = await this.#sbx.ok("exec", vm, "--", "cat", "/root/mark", "/run/mark");
    assertEquals(marks, `mark-${this.#mark}\n`.repeat(2), `disk and memory of ${vm}`);
    const before = (await this.#counted(vm)).length;
    await eventually(`${vm} counts on`, async () => (await this.#counted(vm)).length > before);
    const numbers = await this.#counted(vm);
    assertEquals(numbers, numbers.map((_, index) => index + 1));
  }

  async #requireClean(sessions: readonly string[]): Promise<void> {
    const sbx = this.#sbx;
    await sbx.ok("stop", VM);
    for (const session of sessions) {
      const verified = await sbx.ok("verify", session);
      assertStringIncludes(verified, "as recorded");
      assert(!verified.includes("NOT sealed"), verified);
    }
    await eventually("nothing is left", async () => (await this.#left()).length === 0, 20).catch(
      async (error) => assertEquals(await this.#left(), [], error.message),
    );
  }

  async #left(): Promise<string[]> {
    const { home } = this.#sbx;
    const names = async (dir: string) =>
      await Array.fromAsync(Deno.readDir(join(home, dir)), ({ name }) => name);
    return [
      ...await leftOfMachines(this.#sbx),
      ...(await names("sessions")).filter((name) => name !== this.#id),
      ...(await names(`sessions/${this.#id}`)).filter((name) => name.startsWith("suspended")),
    ];
  }

  async #status(vm: string): Promise<string> {
    const { code, stdout } = await this.#sbx.cli("info", vm, "--json");
    return code === 0 ? JSON.parse(stdout).status : "none";
  }

  async #counted(vm: string): Promise<number[]> {
    const { workspace } = JSON.parse(await this.#sbx.ok("info", vm, "--json"));
    const text = await Deno.readTextFile(join(workspace, "count")).catch(() => "");
    return text.split("\n").slice(0, -1).map(Number);
  }

  async #sessionOf(vm: string): Promise<string> {
    return JSON.parse(await this.#sbx.ok("info", vm, "--json")).id;
  }
}
