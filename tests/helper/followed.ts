/** A program that a test started, and what it has printed so far. */
export class Followed {
  readonly #child: Deno.ChildProcess;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  /** @param child its standard output is piped, and read by nobody else */
  constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** Waits until it has printed `text`. @throws {Error} it ended before */
  async printed(text: string): Promise<void> {
    while (!this.#text.includes(text)) {
      if (await this.#read()) continue;
      const { code } = await this.#child.status;
      throw new Error(`ended with ${code} and did not print "${text}": ${this.#text}`);
    }
  }

  /** Waits for its end. @returns exit code and all that it printed */
  async ended(): Promise<{ code: number; stdout: string }> {
    while (await this.#read());
    const { code } = await this.#child.status;
    return { code, stdout: this.#text };
  }

  /** Ends it as a machine does that loses power. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#reader.cancel();
  }

  async #read(): Promise<boolean> {
    const { value, done } = await this.#reader.read();
    this.#text += value ?? "";
    return !done;
  }
}
