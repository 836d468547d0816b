/**
 * Orders to stop a machine and to let it go on, one after the other. A copy lets its source go on
 * at its end, and a resume decides before it acts: at the same time as a finding's pause they
 * would free a VM that it holds back.
 */
export class Orders {
  #last: Promise<unknown> = Promise.resolve();

  /** Carries an order out after the ones before, whatever came of them. */
  next<T>(order: () => Promise<T>): Promise<T> {
    const done = this.#last.then(order, order);
    this.#last = done;
    return done;
  }
}
