/** Servers on loopback in place of the internet, with a CA of their own. */
import { join } from "node:path";
import { openCa } from "../../lib/network/ca/mod.ts";

/** A received request. */
export interface ReceivedRequest {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string;
}

export class TestUpstreams {
  readonly received: ReceivedRequest[] = [];
  readonly #servers: Deno.HttpServer[] = [];

  private constructor(readonly folder: string) {}

  /** @param answer responds to a request of any name, after it was collected */
  static async make(
    names: string[],
    answer: (request: Request, body: string) => Response | Promise<Response>,
  ): Promise<TestUpstreams & { overrides: string[]; caFile: string }> {
    const folder = await Deno.makeTempDir();
    const world = new TestUpstreams(folder);
    const ca = await openCa({ dir: folder });
    const caFile = join(folder, "ca/ca.crt");
    const overrides: string[] = [];
    const handler = async (request: Request) => {
      const body = await request.clone().text();
      const { url, method, headers } = request;
      world.received.push({ url, method, headers: Object.fromEntries(headers), body });
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
