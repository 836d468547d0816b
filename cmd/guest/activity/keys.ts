const decoder = new TextDecoder();

/** Keys from sbx-pty-agent, which has them from the host. */
export class Keys {
  readonly #pipe: Promise<Deno.FsFile>;
  readonly #bytes = new Uint8Array(4096);
  #text = "";
  #agent = 0;

  /** @param path of the pipe that the agent writes them to */
  constructor(path: string) {
    this.#pipe = Deno.open(path);
  }

  /** Process of the agent. */
  get agent(): number {
    return this.#agent;
  }

  /** Waits for a key; of several only the last one is still good. */
  async next(): Promise<string> {
    while (!this.#text.endsWith("\n")) {
      const read = await (await this.#pipe).read(this.#bytes);
      if (read === null) throw new Error("sbx-pty-agent has ended");
      this.#text += decoder.decode(this.#bytes.subarray(0, read));
    }
    const [key, agent] = this.#text.trimEnd().split("\n").at(-1)!.split(" ");
    this.#text = "";
    this.#agent = Number(agent);
    return key;
  }
}
