/**
 * A project of npm with a lock file, and the registry of its packages on
 * loopback, which counts what it sends.
 */
import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { integrity } from "./cache.ts";
import { tar } from "./tar.ts";

export const NPM_HOST = "registry.npmjs.org";

export class NpmProject {
  readonly #files = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly #manifest: string;
  readonly #lock: string;
  /** `bytes` of the answers so far */
  sent = 0;

  /** @param packages name and `bytes` of content, which no encoding shortens */
  constructor(packages: readonly [name: string, bytes: number][]) {
    const dependencies = Object.fromEntries(packages.map(([name]) => [name, "1.0.0"]));
    const root = { name: "project", version: "1.0.0", dependencies };
    const locked: Record<string, unknown> = { "": root };
    for (const [name, bytes] of packages) {
      const content = gzipSync(tar([
        { name: "package/package.json", content: JSON.stringify({ name, version: "1.0.0" }) },
        { name: "package/data", content: randomBytes(bytes) },
      ]));
      const path = `/${name}/-/${name.split("/").at(-1)}-1.0.0.tgz`;
      const dist = { tarball: `https://${NPM_HOST}${path}`, integrity: integrity(content) };
      this.#files.set(path, new Uint8Array(content));
      const document = JSON.stringify({ name, version: "1.0.0", dist });
      this.#files.set(`/${name}/1.0.0`, new TextEncoder().encode(document));
      locked[`node_modules/${name}`] = {
        version: "1.0.0",
        resolved: dist.tarball,
        integrity: dist.integrity,
      };
    }
    this.#manifest = JSON.stringify(root);
    this.#lock = JSON.stringify({ ...root, lockfileVersion: 3, packages: locked });
  }

  /** Answers a request to {@linkcode NPM_HOST}. */
  answer(pathname: string): Response {
    const content = this.#files.get(decodeURIComponent(pathname));
    this.sent += content?.length ?? 0;
    return new Response(content ?? "{}", { status: content ? 200 : 404 });
  }

  /** Shell lines that install it in a VM. @param dir new folder of the project */
  install(dir: string): string {
    return [
      `mkdir -p ${dir} && cd ${dir}`,
      `echo '${this.#manifest}' >package.json && echo '${this.#lock}' >package-lock.json`,
      `npm ci --no-audit --no-fund --loglevel error >&2`,
    ].join(" && ");
  }
}
