/**
 * A provider on loopback for keys that programs of a guest bring themselves, and
 * the refs that they get for them.
 */
import { assert, assertStringIncludes } from "@std/assert";
import type { Sbx } from "../helper/sbx.ts";
import { TestUpstreams } from "../helper/upstream.ts";

const HOST = "api.anthropic.com";
const SECRET = "sk-ant-api03-forkSECRETforkSECRETforkSECRET0123456789";

export class KeyUpstream {
  #ref = "";

  private constructor(readonly sbx: Sbx, readonly upstream: TestUpstreams) {}

  /** Its answers are the keys that it got. */
  static async make(sbx: Sbx): Promise<KeyUpstream> {
    const upstream = await TestUpstreams.make(
      [HOST],
      (request) => Response.json({ key: request.headers.get("x-api-key") }),
    );
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": upstream.overrides,
      "network.extra_ca_file": upstream.caFile,
    });
    return new KeyUpstream(sbx, upstream);
  }

  /** A program of `vm` sends a key, for which it gets a ref. */
  async capture(vm: string): Promise<void> {
    this.#ref = JSON.parse(await this.#send(vm, SECRET)).key;
    assert(this.#ref.startsWith("credential:blake3:"), this.#ref);
  }

  /** The ref stands for the key in `vm`. */
  async works(vm: string): Promise<void> {
    const before = this.#received();
    await this.#send(vm, this.#ref);
    assert(this.#received() > before, `the ref stands for its key in ${vm}`);
  }

  /** The ref is refused in `vm`. */
  async isRefused(vm: string): Promise<void> {
    const before = this.#received();
    assertStringIncludes(await this.#send(vm, this.#ref), "credential.denied");
    assert(this.#received() === before, `the ref is of no use in ${vm}`);
  }

  close(): Promise<void> {
    return this.upstream.close();
  }

  async #send(vm: string, key: string): Promise<string> {
    const curl = ["curl", "-sS", `https://${HOST}/`, "-H", `x-api-key: ${key}`];
    return await this.sbx.ok("exec", vm, "--", ...curl);
  }

  #received(): number {
    return this.upstream.received.filter(({ headers }) => headers["x-api-key"] === SECRET).length;
  }
}
