/** Servers on loopback that stand for the world of a guest: an authority of their own, and what they were sent. */
import { join } from "node:path";
import { openCa } from "../../lib/ca/mod.ts";

/** One request as it arrived. */
export interface Arrived {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string;
}

export class World {
  readonly arrived: Arrived[] = [];
  readonly #servers: Deno.HttpServer[] = [];

  private constructor(readonly folder: string) {}

  /** @param answer of every name, after the request was noted */
  static async make(
    names: string[],
    answer: (request: Request, body: string) => Response | Promise<Response>,
  ): Promise<World & { overrides: string[]; caFile: string }> {
    const folder = await Deno.makeTempDir();
    const world = new World(folder);
    const ca = await openCa({ dir: folder });
    const caFile = join(folder, "ca/ca.crt");
    const overrides: string[] = [];
    const handler = async (request: Request) => {
      const body = await request.clone().text();
      const { url, method, headers } = request;
      world.arrived.push({ url, method, headers: Object.fromEntries(headers), body });
      return await answer(request, body);
    };
    const plain = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, handler);
    world.#servers.push(plain);
    for (const name of names) {
      const { cert, key } = await ca.leaf(name);
      const tls = Deno.serve({ hostname: "127.0.0.1", port: 0, cert, key, onListen: () => {} }, handler);
      world.#servers.push(tls);
      overrides.push(`${name}:443=127.0.0.1:${tls.addr.port}`, `${name}:80=127.0.0.1:${plain.addr.port}`);
    }
    return Object.assign(world, { overrides, caFile });
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.shutdown()));
    await Deno.remove(this.folder, { recursive: true });
  }
}
