/** Most development ports of a VM (docs/design/contracts/02-http.md §2, "Ports"). */
const DEV_PORTS_MAX = 32;

/** The ports of the variable `SBX_DEV_PORTS` that programs of the guest listen on. */
export class DevPorts {
  readonly #wanted: ReadonlySet<number>;
  readonly #found = new Set<number>();
  readonly #tell: (ports: number[]) => void;

  /** @param tell receives all of them, with each new one */
  constructor({ SBX_DEV_PORTS = "" }: Record<string, string>, tell: (ports: number[]) => void) {
    const ports = SBX_DEV_PORTS.split(",").map(Number).filter((port) => port > 0);
    this.#wanted = new Set(ports.slice(0, DEV_PORTS_MAX));
    this.#tell = tell;
  }

  add(port: number): void {
    if (!this.#wanted.has(port) || this.#found.has(port)) return;
    this.#found.add(port);
    this.#tell([...this.#found]);
  }
}
