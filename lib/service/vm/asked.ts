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
  readonly #running = new Map<string, { digest: string; clients: Clients; made: Promise<Vm[]> }>();
  readonly #vms: () => Vm[];

  /** @param vms every VM of the home */
  constructor(vms: () => Vm[]) {
    this.#vms = vms;
  }

  /**
   * @param make makes the VMs, whose records name `asked`; its signal aborts when each client has left
   * @param gone aborts when this client has left
   * @throws {SbxError} `request.key_reused`: the key is of another request; the errors of `make`
   */
  async make(
    asked: Asked | undefined,
    make: (gone: AbortSignal | undefined) => Promise<Vm[]>,
    gone?: AbortSignal,
  ): Promise<Vm[]> {
    if (!asked) return await make(gone);
    const { key, digest } = asked;
    const running = this.#running.get(key);
    if (running) {
      requireSame(running.digest, digest);
      if (running.clients.join(gone)) return await running.made;
      // All have left: it fails if it still waits, and is made again; past the wait, it goes on.
      return await running.made.catch(() => this.make(asked, make, gone));
    }
    const before = this.#vms().filter(({ record }) => record.asked?.key === key);
    for (const { record } of before) requireSame(record.asked!.digest, digest);
    if (before.length > 0) return before;
    const clients = new Clients();
    clients.join(gone);
    const own = { digest, clients, made: make(clients.gone) };
    this.#running.set(key, own);
    try {
      return await own.made;
    } finally {
      this.#running.delete(key);
    }
  }
}

/** The clients of one request: one that comes again may be here before its first connection ends. */
class Clients {
  readonly #gone = new AbortController();
  #count = 0;

  /** Aborts when all have left. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** @returns false: all have left before */
  join(gone: AbortSignal | undefined): boolean {
    if (this.gone.aborted) return false;
    this.#count++;
    const leave = () => {
      if (--this.#count === 0) this.#gone.abort();
    };
    if (gone?.aborted) leave();
    else gone?.addEventListener("abort", leave, { once: true });
    return true;
  }
}

function requireSame(first: string, second: string): void {
  if (first === second) return;
  throw new SbxError("request.key_reused", "this idempotency key is of a request with another body", {
    hint: "give each request a key of its own, and repeat it with the same body only",
  });
}
