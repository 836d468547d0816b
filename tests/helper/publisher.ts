/** A folder of published assets, a home, and a web server over the folder that can misbehave. */
import { join } from "node:path";
import { generateManifest, installAssets, type InstallOptions } from "../../lib/release/asset/mod.ts";
import { type Home, home as findHome } from "../../lib/base/home/mod.ts";
import { Random } from "./random.ts";

/** Content of the one big file, longer than one chunk of any reader. */
export const BIG = new Random(7).bytes(700_000);

export class Publisher implements AsyncDisposable {
  readonly ranges: string[] = [];
  /** cuts off the next body of `rootfs.erofs` after this many `bytes` */
  cutAfter?: number;
  resumes = true;

  readonly server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => this.#answer(request),
  );

  private constructor(readonly dir: string, readonly home: Home) {}

  static async start(): Promise<Publisher> {
    const dir = await Deno.makeTempDir();
    await Deno.mkdir(join(dir, "x86_64"));
    for (const name of ["vmlinuz", "initrd.img", "obom.cdx.json"]) {
      await Deno.writeTextFile(join(dir, "x86_64", name), name);
    }
    await Deno.writeFile(join(dir, "x86_64/rootfs.erofs"), BIG);
    await generateManifest(dir, { binaryVersion: "0.1.0", version: "2026.0101.1" });
    const homeDir = await Deno.makeTempDir();
    const home = findHome({ get: (name) => name === "SBX_HOME" ? homeDir : undefined });
    return new Publisher(dir, home);
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.addr.port}/manifest.json`;
  }

  async #answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const bytes = await Deno.readFile(join(this.dir, path)).catch(() => null);
    if (!bytes) return new Response("no", { status: 404 });
    const range = request.headers.get("range");
    if (range) this.ranges.push(range);
    const start = this.resumes && range ? Number(range.match(/\d+/)![0]) : 0;
    const headers = start
      ? { "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` }
      : undefined;
    const cut = path.endsWith("rootfs.erofs") ? this.cutAfter : undefined;
    if (cut) this.cutAfter = undefined;
    // A stream has no length: a cut one looks like a connection that broke.
    return new Response(cut ? new Blob([bytes.slice(start, cut)]).stream() : bytes.slice(start), {
      status: start ? 206 : 200,
      headers,
    });
  }

  install(manifestUrl = this.url, options: Partial<InstallOptions> = {}) {
    return installAssets({ manifestUrl, home: this.home, arch: "x86_64", ...options });
  }

  /** Publishes another kernel, as another release. */
  async publish(version: string, kernel = `kernel of ${version}`): Promise<void> {
    await Deno.writeTextFile(join(this.dir, "x86_64/vmlinuz"), kernel);
    await generateManifest(this.dir, { binaryVersion: "0.1.0", version });
  }

  /** Names in the assets' folder, without the lock. */
  async installed(): Promise<string[]> {
    const entries = await Array.fromAsync(Deno.readDir(this.home.assetsDir));
    return entries.map(({ name }) => name).filter((name) => name !== ".lock").sort();
  }

  async [Symbol.asyncDispose]() {
    await this.server.shutdown();
    for (const dir of [this.dir, this.home.dir]) await Deno.remove(dir, { recursive: true });
  }
}
