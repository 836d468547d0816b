/** Memory that a process at rest gives back. */
import { assert, assertEquals } from "@std/assert";
import { RestingHeap } from "../../../lib/base/heap/mod.ts";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

const MB = 1024 * 1024;

/** A heap in `MB`, and the collections that it has seen. */
class Probe {
  used = 30;
  held = 40;
  collections = 0;
  readonly #heap: RestingHeap;

  /** @param live cannot be collected */
  constructor(live = 10) {
    this.#heap = new RestingHeap({
      size: () => ({ used: this.used * MB, held: this.held * MB }),
      collect: () => {
        this.collections++;
        this.used = this.held = live;
      },
    });
  }

  /** Looks once at each of these. @returns collections so far */
  async look(...sizes: [used: number, held: number][]): Promise<number> {
    for (const [used, held] of sizes) {
      Object.assign(this, { used, held });
      await this.#heap.look();
    }
    return this.collections;
  }
}

Deno.test("a heap is collected when it has stopped growing, and once", async () => {
  const probe = new Probe();
  assertEquals(await probe.look([30, 40]), 0, "at the first look nothing says whether it grows");
  assertEquals(await probe.look([32, 40], [34, 40], [36, 40]), 0, "it grows");
  assertEquals(await probe.look([36.2, 40]), 1, "at rest");
  assertEquals(await probe.look([10.1, 11], [10.2, 11], [10.3, 11]), 1, "nothing to give back");
});

Deno.test("a heap is collected again after work that left enough", async () => {
  const probe = new Probe();
  await probe.look([30, 40], [30, 40]);
  assertEquals(await probe.look([11, 17], [11, 17]), 1, "seven MB are not worth it");
  assertEquals(await probe.look([17, 19], [17, 19]), 2);
});

Deno.test("pages that V8 emptied by itself are given back too", async () => {
  const probe = new Probe(5);
  assertEquals(await probe.look([5, 25], [5, 25]), 1);
});

Deno.test("memory that is in use is not collected for again and again", async () => {
  const probe = new Probe(40);
  assertEquals(await probe.look([40, 40], [40, 40], [40, 40], [40, 40]), 1);
});

Deno.test("a process at rest gives its pages back to the machine", async () => {
  const mod = fromRoot("lib/base/heap/mod.ts");
  // Ends when its memory falls, however long that takes; a process that gives
  // nothing back is killed by the limit.
  const program = `
    import { collectAtRest } from ${JSON.stringify(mod)};
    collectAtRest(50);
    let rest = Array.from({ length: 300_000 }, (_, n) => ({ n, text: "x" + n }));
    const full = Deno.memoryUsage().heapTotal;
    rest = [];
    const timer = setInterval(() => {
      const now = Deno.memoryUsage().heapTotal;
      if (now > full / 2) return;
      clearInterval(timer);
      console.log(JSON.stringify({ full, now }));
    }, 20);`;
  const args = ["eval", "--quiet", "--config", fromRoot("deno.json"), "--cached-only", program];
  const { code, stdout, stderr } = await runChild(Deno.execPath(), { args, env: {} });
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  const { full, now } = JSON.parse(new TextDecoder().decode(stdout));
  assert(full > 20 * MB, `the program made too little: ${full}`);
  assert(now < full / 2, `${now} of ${full}`);
});
