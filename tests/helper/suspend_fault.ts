/** kill −9 of the programs of a VM that is suspended or resumes, and what must hold afterwards. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { killAll, leftOfMachines, untilNoticed, type Victim } from "./kill.ts";
import type { Random } from "./random.ts";
import { eventually, Sbx } from "./sbx.ts";

/** Name of the VM that every moment hits. */
const VM = "victim";
/** Longest time in `ms` after which the program is killed: a VM is written, or is back, before. */
const MOMENTS_MS = { suspend: 2000, resume: 2000 };
const VICTIMS: readonly Victim[] = [
  "service",
  "sbx-process",
  "qemu-system",
  "virtiofsd",
  "vhost-device-vsock",
];
/** Counts into a file that stays open, from 1 and without a gap. */
const COUNT = "exec 3>/workspace/count; n=0; while :; do n=$((n+1)); echo $n >&3; sleep 0.05; done";

type Work = keyof typeof MOMENTS_MS;

/** A home with one VM that counts, and has a mark in its memory and the same one on its disk. */
export class SuspendFaults {
  readonly #sbx: Sbx;
  readonly #id: string;
  readonly #workspace: string;
  #mark = 0;

  private constructor(sbx: Sbx, { id, workspace }: { id: string; workspace: string }) {
    this.#sbx = sbx;
    this.#id = id;
    this.#workspace = workspace;
  }

  static async make(): Promise<SuspendFaults> {
    const home = await Deno.makeTempDir({ prefix: "sbx-" });
    const sbx = await Sbx.make({ home, spare: false, env: { SBX_TEMPLATES_DIR: join(home, "templates") } });
    await sbx.ok("template", "make");
    await sbx.ok("create", VM);
    return new SuspendFaults(sbx, JSON.parse(await sbx.ok("info", VM, "--json")));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sbx.dispose();
  }

  /** One kill at a random moment, then everything that must hold. @returns what was done */
  async strike(random: Random): Promise<string> {
    const work: Work = random.pick(["suspend", "resume"] as const);
    const victim = random.pick(VICTIMS);
    const ms = random.below(MOMENTS_MS[work]);
    await this.#prepare();
    if (work === "resume") await this.#sbx.ok("suspend", VM);
    const struck = this.#sbx.cli(work, VM);
    await new Promise((resolve) => setTimeout(resolve, ms));
    const hit = await killAll(this.#sbx, VM, victim);
    const { code } = await struck;
    const done = `${work}: ${victim} after ${ms} ms, ${hit} killed, exit code ${code}`;
    return `${done}, ${await this.#check(victim, hit, done)}`;
  }

  /** A program that counts, and a new mark on the disk and in memory. */
  async #prepare(): Promise<void> {
    const sbx = this.#sbx;
    if (await this.#status() !== "Running") await sbx.ok("start", VM);
    const mark = `mark-${++this.#mark}`;
    const begin =
      `nohup sh -c '${COUNT}' >/dev/null 2>&1 & echo ${mark} >/root/mark; echo ${mark} >/run/mark; sync`;
    await sbx.ok("exec", VM, "--", "sh", "-c", begin);
    await eventually("it counts", async () => (await this.#counted()).length > 0);
  }

  /**
   * The VM goes on with its memory, or starts with its disk: it never has a memory that is older than its
   * disk. Its record verifies, and nothing is left.
   * @returns the VM as it was found
   */
  async #check(victim: Victim, hit: number, done: string): Promise<string> {
    const sbx = this.#sbx;
    await untilNoticed(victim, hit);
    await eventually("the VM has come to rest", async () => {
      const now = await this.#status();
      // A machine that was killed counts as running until its process has seen the end.
      return now === "Running" ? (await sbx.cli("exec", VM, "--", "true")).code === 0 : now !== "Booting";
    });
    const { status: found, last_error } = JSON.parse(await sbx.ok("info", VM, "--json"));
    if (found === "Suspended") await sbx.ok("resume", VM);
    else if (found !== "Running") await sbx.ok("start", VM);
    const mark = `mark-${this.#mark}\n`;
    assertEquals(await sbx.ok("exec", VM, "--", "cat", "/root/mark"), mark, "its disk");
    const inMemory = await sbx.ok("exec", VM, "--", "sh", "-c", "cat /run/mark 2>/dev/null || echo gone");
    const isKept = inMemory !== "gone\n";
    if (isKept) assertEquals(inMemory, mark, "its memory");
    if (found === "Running" || found === "Suspended" || victim === "service" || hit === 0) {
      assert(isKept, `${done}: a VM that is ${found} keeps its memory; ${last_error}`);
    }
    if (isKept) await this.#requireCounting();
    await this.#requireClean();
    return `${found}, memory ${isKept ? "kept" : "lost"}`;
  }

  /** The program counts on, and no number is missing. */
  async #requireCounting(): Promise<void> {
    const before = (await this.#counted()).length;
    await eventually("it counts on", async () => (await this.#counted()).length > before);
    const numbers = await this.#counted();
    assertEquals(numbers, numbers.map((_, index) => index + 1));
  }

  async #requireClean(): Promise<void> {
    const sbx = this.#sbx;
    await sbx.ok("stop", VM);
    const verified = await sbx.ok("verify", this.#id);
    assertStringIncludes(verified, "as recorded");
    assert(!verified.includes("NOT sealed"), verified);
    await eventually("nothing is left", async () => (await this.#left()).length === 0, 20).catch(
      async (error) => assertEquals(await this.#left(), [], error.message),
    );
  }

  async #left(): Promise<string[]> {
    const files = await Array.fromAsync(Deno.readDir(join(this.#workspace, "..")), ({ name }) => name);
    return [
      ...await leftOfMachines(this.#sbx),
      ...files.filter((name) => name.startsWith("suspended") || name.endsWith(".sock")),
    ];
  }

  async #status(): Promise<string> {
    return JSON.parse(await this.#sbx.ok("info", VM, "--json")).status;
  }

  async #counted(): Promise<number[]> {
    const text = await Deno.readTextFile(join(this.#workspace, "count")).catch(() => "");
    return text.split("\n").slice(0, -1).map(Number);
  }
}
