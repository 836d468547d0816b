/** kill −9 of updates, and what must hold afterwards: the old set or the new one, whole. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { installAssets, readInstalled, resolveAssets, verifyAssets } from "../../lib/release/asset/mod.ts";
import { Publisher } from "./publisher.ts";
import type { Random } from "./random.ts";
import { fromRoot } from "./repo.ts";

/** Longest time in `ms` after its first installation until an updater is killed. */
const MOMENT_MS = 400;

/** Two publishers with other files, and one home that updates to the one and the other. */
export class UpdateFaults implements AsyncDisposable {
  readonly #publishers: Publisher[];

  private constructor(publishers: Publisher[]) {
    this.#publishers = publishers;
  }

  static async make(): Promise<UpdateFaults> {
    const publishers = [await Publisher.start(), await Publisher.start()];
    await publishers[1].publish("2026.0101.2");
    return new UpdateFaults(publishers);
  }

  get #home() {
    return this.#publishers[0].home;
  }

  /**
   * One kill at a random moment of one updater or two, then everything that must hold.
   * @returns what was done
   */
  async strike(random: Random): Promise<string> {
    const count = random.pick([1, 2] as const);
    const ms = random.below(MOMENT_MS);
    const isFirst = random.below(4) === 0;
    // Now and then there is nothing yet: the first download is hit.
    if (isFirst) await Deno.remove(this.#home.assetsDir, { recursive: true }).catch(() => {});
    const updaters = Array.from({ length: count }, () => this.#start());
    if (!isFirst) await Promise.race(updaters.map((updater) => updater.stdout.getReader().read()));
    await new Promise((resolve) => setTimeout(resolve, ms));
    for (const updater of updaters) updater.kill("SIGKILL");
    await Promise.all(updaters.map(({ status }) => status));
    const found = await this.#check();
    return `${count} updaters after ${ms} ms${isFirst ? " of their first update" : ""}: ${found}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const publisher of this.#publishers) await publisher[Symbol.asyncDispose]();
  }

  #start(): Deno.ChildProcess {
    const urls = this.#publishers.map(({ url }) => url);
    return new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--quiet",
        "--no-check",
        fromRoot("tests/helper/update_loop.ts"),
        this.#home.dir,
        ...urls,
      ],
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
  }

  /**
   * The manifest is whole, its origin is its own, and its files are there with their
   * hashes; the next update works.
   */
  async #check(): Promise<string> {
    const { assetsDir } = this.#home;
    const installed = await readInstalled(assetsDir).catch(() => undefined);
    if (installed) {
      const [published] = await Promise.all(this.#publishers.map(async ({ dir, url }) => ({
        url,
        bytes: await Deno.readFile(join(dir, "manifest.json")),
      }))).then((all) => all.filter(({ bytes }) => bytes.toHex() === installed.bytes.toHex()));
      assert(published, "the installed manifest is none of the published ones");
      assertEquals(installed.origin?.source, published.url);
      await verifyAssets(await resolveAssets(this.#home, "x86_64"));
    }
    const [{ url }] = this.#publishers;
    await installAssets({ manifestUrl: url, home: this.#home, arch: "x86_64", allowDowngrade: true });
    const left = (await this.#publishers[0].installed()).filter((name) => name.startsWith("."));
    assertEquals(left, []);
    return installed ? installed.manifest.assets.current : "nothing";
  }
}
