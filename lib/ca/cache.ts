/** Values that are worth keeping, the least used of them given up first; one that failed is made anew. */
export class LeafCache<T> {
  readonly #entries = new Map<string, Promise<T>>();

  constructor(readonly max: number) {}

  get(key: string, make: () => Promise<T>): Promise<T> {
    const known = this.#entries.get(key);
    if (known) this.#entries.delete(key);
    const value = known ?? make();
    this.#entries.set(key, value);
    if (!known) {
      value.catch(() => {
        if (this.#entries.get(key) === value) this.#entries.delete(key);
      });
      if (this.#entries.size > this.max) this.#entries.delete(this.#entries.keys().next().value!);
    }
    return value;
  }
}
