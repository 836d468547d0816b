/** A bad network in front of a port of this machine: slow, and cut when a test says so. */
export class BadNetwork implements AsyncDisposable {
  /** `ms` that bytes of either direction are on their way */
  delay = 0;
  #isDown = false;
  readonly #listener: Deno.TcpListener;
  readonly #open = new Set<Deno.TcpConn>();

  constructor(readonly target: number) {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#accept();
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Cuts all connections, and lets none through until {@linkcode mend}. */
  cut(): void {
    this.#isDown = true;
    for (const each of this.#open) close(each);
  }

  mend(): void {
    this.#isDown = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.cut();
    await Promise.resolve();
  }

  async #accept(): Promise<void> {
    for await (const near of this.#listener) {
      if (this.#isDown) close(near);
      else this.#connect(near).catch(() => close(near));
    }
  }

  async #connect(near: Deno.TcpConn): Promise<void> {
    const far = await Deno.connect({ hostname: "127.0.0.1", port: this.target });
    this.#open.add(near).add(far);
    await Promise.all([this.#copy(near, far), this.#copy(far, near)]).catch(() => {});
    for (const each of [near, far]) {
      this.#open.delete(each);
      close(each);
    }
  }

  async #copy(from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
    const writer = to.writable.getWriter();
    for await (const chunk of from.readable) {
      if (this.delay > 0) await new Promise((resolve) => setTimeout(resolve, this.delay));
      await writer.write(chunk);
    }
    await writer.close();
  }
}

function close(connection: Deno.TcpConn): void {
  try {
    connection.close();
  } catch {
    // It is closed already.
  }
}
