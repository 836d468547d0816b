/** `sbx-admin fleet serve` as a process of its own, which can be killed. */
import { fromRoot } from "./repo.ts";

export class ReceiverProcess {
  #child: Deno.ChildProcess;
  url = "";

  constructor(store: string, options: string[] = [], env: Record<string, string> = {}) {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", fromRoot("main.ts"), "admin", "fleet", "serve", store, ...options],
      stdout: "piped",
      stderr: Deno.env.get("VERBOSE") ? "inherit" : "null",
      env,
    }).spawn();
  }

  get pid(): number {
    return this.#child.pid;
  }

  async ready(): Promise<this> {
    const reader = this.#child.stdout.getReader();
    const { value } = await reader.read();
    this.url = new TextDecoder().decode(value).trim();
    reader.releaseLock();
    return this;
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#child.stdout.cancel();
  }
}
