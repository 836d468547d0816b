/** Answers in the order of their requests: an earlier one that comes late does not replace a later one. */
export class Turns {
  #begun = 0;
  #applied = 0;

  /** Asks, and applies the answer unless a later request was answered before. @throws error of `read` */
  async take<T>(read: () => Promise<T>, apply: (answer: T) => void): Promise<void> {
    const turn = ++this.#begun;
    const answer = await read();
    if (turn < this.#applied) return;
    this.#applied = turn;
    apply(answer);
  }
}
