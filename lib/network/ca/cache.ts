/** Cache of pending and settled values. Evicts the least recently used; drops a value that fails. */
export class LeafCache<T> {
  readonly #entries = new Map<string, Promise<T>>();

  constructor(readonly max: number) {}

  get(key: string, make: () => Promise<T>): Promise<T> {
    const existing = this.#entries.get(key);
    if (existing) this.#entries.delete(key);
    const value = existing ?? make();
    this.#entries.set(key, value);
    if (!existing) {
      value.catch(() => {
        if (this.#entries.get(key) === value) this.#entries.delete(key);
      });
      if (this.#entries.size > this.max) this.#entries.delete(this.#entries.keys().next().value!);
    }
    return value;
  }
}
