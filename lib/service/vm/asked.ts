/**
 * Requests that come twice, since their client saw no answer to the first
 * (docs/design/contracts/02-http.md §2, "Promises").
 */
import { SbxError } from "../../base/error/mod.ts";
import type { VmRecord } from "../../session/mod.ts";
import type { Vm } from "./vm.ts";

/** A client's key of a request, and the hash of the request. */
export type Asked = NonNullable<VmRecord["asked"]>;

/**
 * Gives the VMs of the first request to each further one with its key, also after a restart of the service.
 */
export class AskedOnce {
  readonly #running = new Map<string, { digest: string; made: Promise<Vm[]> }>();
  readonly #vms: () => Vm[];

  /** @param vms every VM of the home */
  constructor(vms: () => Vm[]) {
    this.#vms = vms;
  }

  /**
   * @param make makes the VMs, whose records name `asked`
   * @throws {SbxError} `request.key_reused`: the key is of another request; the errors of `make`
   */
  async make(asked: Asked | undefined, make: () => Promise<Vm[]>): Promise<Vm[]> {
    if (!asked) return await make();
    const { key, digest } = asked;
    const running = this.#running.get(key);
    if (running) {
      requireSame(running.digest, digest);
      return await running.made;
    }
    const before = this.#vms().filter(({ record }) => record.asked?.key === key);
    for (const { record } of before) requireSame(record.asked!.digest, digest);
    if (before.length > 0) return before;
    const made = make();
    this.#running.set(key, { digest, made });
    try {
      return await made;
    } finally {
      this.#running.delete(key);
    }
  }
}

function requireSame(first: string, second: string): void {
  if (first === second) return;
  throw new SbxError("request.key_reused", "this idempotency key is of a request with another body", {
    hint: "give each request a key of its own, and repeat it with the same body only",
  });
}
