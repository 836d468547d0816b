/** Guests that share a cache, and registries on loopback that count what they send. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { ArtifactStore, SharedCache } from "../../lib/cache/mod.ts";
import { openCa } from "../../lib/network/ca/mod.ts";
import { TestNet, type TestNetOptions } from "./net.ts";
import type { RawResponse } from "./net_client.ts";
import { eventually } from "./sbx.ts";

/** Hosts of the registries. */
const HOSTS = [
  "registry.npmjs.org",
  "files.pythonhosted.org",
  "registry.example",
  "cdn.example",
  "evil.example",
  "static.crates.io",
  "index.crates.io",
  "proxy.golang.org",
  "sum.golang.org",
  "repo.maven.apache.org",
  "deb.example",
];

/** Every registry that the cache knows. */
export const REGISTRIES = { npm: [], pypi: [], docker: [], apt: [], crates: [], go: [], maven: [] };

/** A request that a registry received. */
export interface RegistryRequest {
  url: string;
  headers: Headers;
}

export class CacheWorld implements AsyncDisposable {
  readonly received: RegistryRequest[] = [];
  readonly #servers: Deno.HttpServer[] = [];
  readonly #ports = new Map<string, number>();
  readonly #nets: TestNet[] = [];

  private constructor(readonly dir: string, readonly store: ArtifactStore) {}

  /** @param answer responds for every host */
  static async make(
    answer: (url: URL, request: Request) => Response | Promise<Response>,
    maxBytes = 64 * 1024 * 1024,
  ): Promise<CacheWorld> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-cache-" });
    const world = new CacheWorld(dir, await ArtifactStore.open(join(dir, "store"), maxBytes));
    const ca = await openCa({ dir: join(dir, "upstream") });
    for (const host of HOSTS) {
      for (const scheme of ["https", "http"]) {
        const server = Deno.serve({
          hostname: "127.0.0.1",
          port: 0,
          onListen: () => {},
          ...(scheme === "https" && await ca.leaf(host)),
        }, (request) => {
          const { pathname, search } = new URL(request.url);
          const url = new URL(`${scheme}://${host}${pathname}${search}`);
          world.received.push({ url: url.href, headers: new Headers(request.headers) });
          return answer(url, request);
        });
        world.#servers.push(server);
        world.#ports.set(`${host}:${scheme === "https" ? 443 : 80}`, server.addr.port);
      }
    }
    return world;
  }

  /** A VM that shares the cache. */
  async vm(
    options: TestNetOptions = {},
    registries: Record<string, string[]> = REGISTRIES,
    isAllowed?: () => boolean,
  ): Promise<TestNet> {
    const cache = await SharedCache.open({
      dir: join(this.dir, "store"),
      registries,
      ...(isAllowed && { isAllowed }),
      maxBytes: 64 * 1024 * 1024,
    });
    const target = (host: string, port: number) => {
      const here = this.#ports.get(`${host}:${port}`);
      return here === undefined ? undefined : { hostname: "127.0.0.1", port: here };
    };
    const net = await TestNet.open({ target, cache, upstreamDir: join(this.dir, "upstream"), ...options });
    this.#nets.push(net);
    return net;
  }

  /** Waits until the cache has an artefact. */
  async kept(url: string): Promise<void> {
    await eventually(`${url} is kept`, async () => (await this.urls()).some((each) => each.endsWith(url)));
  }

  /** URLs of the artefacts, without their ports. */
  async urls(): Promise<string[]> {
    return (await this.store.list()).map(({ url }) => url.replace(/:(443|80)\//, "/")).toSorted();
  }

  /** Waits until no copy is being made. */
  async settled(): Promise<void> {
    await eventually("no copy is being made", async () => {
      const parts = await Array.fromAsync(Deno.readDir(join(this.dir, "store/parts")));
      return parts.length === 0;
    });
  }

  /** Paths that the registries were asked for. */
  get paths(): string[] {
    return this.received.map(({ url }) => new URL(url).pathname);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const net of this.#nets) await net[Symbol.asyncDispose]();
    await Promise.all(this.#servers.map((server) => server.shutdown()));
    // Copies are kept or dropped behind the answers of their guests, and make files while these are removed.
    await eventually("its folder is removed", () => {
      try {
        Deno.removeSync(this.dir, { recursive: true });
        return true;
      } catch (error) {
        if ((error as { code?: string }).code === "ENOTEMPTY") return false;
        throw error;
      }
    });
  }
}

/** Sends one request of a guest. @param fields further lines of its head */
export async function get(net: TestNet, url: string, fields: readonly string[] = []): Promise<RawResponse> {
  const { hostname, pathname, search, protocol } = new URL(url);
  const client = protocol === "https:" ? await net.tls(hostname) : await net.client();
  const lines = [`GET ${pathname}${search} HTTP/1.1`, `Host: ${hostname}`, ...fields, "", ""];
  try {
    return await client.ask(lines.join("\r\n"));
  } finally {
    client.close();
  }
}

/**
 * An npm package whose version 1.0.0 is `content`.
 * @param base path of its registry
 * @returns the answer of that
 */
export function npmAnswer(name: string, content: string, base = ""): (url: URL) => Response {
  const tarball = `${base}/${name}/-/${name.replace(/^@[^/]+\//, "")}-1.0.0.tgz`;
  return ({ host, pathname }) => {
    if (pathname === tarball) return new Response(content);
    if (pathname !== `${base}/${name}/1.0.0`) return new Response(null, { status: 404 });
    const dist = {
      tarball: `https://${host}${tarball}`,
      integrity: integrity(content),
      shasum: "0".repeat(40),
    };
    return Response.json({ name, version: "1.0.0", dist });
  };
}

/** SHA-512 as npm writes it. */
export function integrity(content: string | Uint8Array): string {
  return `sha512-${createHash("sha512").update(content).digest("base64")}`;
}

export function sha256(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}
