/** kill −9 of the programs that make a template, or start a VM from one, and what must hold afterwards. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { killAll, leftOfMachines, type Victim } from "./kill.ts";
import type { Random } from "./random.ts";
import { eventually, Sbx } from "./sbx.ts";

/** Name of the VM that every moment starts. */
const VM = "victim";
/**
 * Longest time in `ms` after which the program is killed: a template is made, or a VM has started, before.
 */
const MOMENTS_MS = { make: 20_000, start: 2500 };
const VICTIMS = {
  make: ["service", "qemu-system"],
  start: ["service", "sbx-process", "qemu-system", "virtiofsd", "vhost-device-vsock"],
} as const;

type Work = keyof typeof VICTIMS;

/** A home with one VM that has a file, and a template for it. */
export class TemplateFaults {
  readonly #sbx: Sbx;
  readonly #id: string;

  private constructor(sbx: Sbx, id: string) {
    this.#sbx = sbx;
    this.#id = id;
  }

  static async make(): Promise<TemplateFaults> {
    const home = await Deno.makeTempDir({ prefix: "sbx-" });
    const sbx = await Sbx.make({ home, spare: false, env: { SBX_TEMPLATES_DIR: join(home, "templates") } });
    await sbx.ok("template", "make");
    await sbx.ok("create", VM);
    await sbx.ok("exec", VM, "--", "sh", "-c", "echo kept >/root/kept; sync");
    await sbx.ok("stop", VM);
    return new TemplateFaults(sbx, JSON.parse(await sbx.ok("info", VM, "--json")).id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sbx.dispose();
  }

  /** One kill at a random moment, then everything that must hold. @returns what was done */
  async strike(random: Random): Promise<string> {
    const work: Work = random.pick(["make", "start"] as const);
    const victim = random.pick<Victim>(VICTIMS[work]);
    const ms = random.below(MOMENTS_MS[work]);
    if (work === "make") await this.#removeTemplates();
    const struck = work === "make" ? this.#sbx.cli("template", "make") : this.#sbx.cli("start", VM);
    await new Promise((resolve) => setTimeout(resolve, ms));
    const hit = await killAll(this.#sbx, VM, victim);
    const { code } = await struck;
    await this.#check();
    return `${work}: ${victim} after ${ms} ms, ${hit} killed, exit code ${code}`;
  }

  async #removeTemplates(): Promise<void> {
    const { templates } = JSON.parse(await this.#sbx.ok("template", "list", "--json"));
    for (const { id } of templates) await this.#sbx.ok("template", "remove", id);
  }

  /** The VM starts, with its disk; its record verifies; nothing is left. */
  async #check(): Promise<void> {
    const sbx = this.#sbx;
    const status = async () => JSON.parse(await sbx.ok("info", VM, "--json")).status;
    await eventually("the VM has come to rest", async () => {
      const now = await status();
      // A machine that was killed counts as running until its process has seen the end.
      return now === "Running" ? (await sbx.cli("exec", VM, "--", "true")).code === 0 : now !== "Booting";
    });
    if (await status() !== "Running") await sbx.ok("start", VM);
    assertEquals(await sbx.ok("exec", VM, "--", "cat", "/root/kept"), "kept\n");
    await sbx.ok("stop", VM);
    const verified = await sbx.ok("verify", this.#id);
    assertStringIncludes(verified, "as recorded");
    assert(!verified.includes("NOT sealed"), verified);
    // A template in the making ends by itself; one that is missing is made.
    await sbx.ok("template", "make");
    await eventually("nothing is left", async () => (await leftOfMachines(sbx)).length === 0, 20).catch(
      async (error) => {
        assertEquals(await leftOfMachines(sbx), [], error.message);
      },
    );
    const { templates } = JSON.parse(await sbx.ok("template", "list", "--json"));
    assert(templates.length === 1);
  }
}
