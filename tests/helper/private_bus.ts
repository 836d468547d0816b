/** A session bus of a test's own. */
import dbus from "dbus-native";
import { join } from "node:path";
import { limitChild } from "./child.ts";
import { eventually } from "./sbx.ts";

export class PrivateBus implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  #hasEnded = false;

  private constructor(readonly address: string, readonly dir: string, child: Deno.ChildProcess) {
    this.#child = child;
  }

  static async start(): Promise<PrivateBus> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-bus-" });
    const path = join(dir, "bus");
    const child = limitChild(
      new Deno.Command("dbus-daemon", {
        args: ["--session", "--nofork", "--nopidfile", `--address=unix:path=${path}`],
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn(),
    );
    // Its socket has a name before it takes connections.
    await eventually("the bus takes connections", async () => {
      const connection = await Deno.connect({ transport: "unix", path }).catch(() => undefined);
      connection?.close();
      return connection !== undefined;
    });
    return new PrivateBus(`unix:path=${path}`, dir, child);
  }

  client(): dbus.MessageBus {
    return dbus.createClient({ busAddress: this.address });
  }

  /** Ends the bus, as the end of a desktop session does. */
  async end(): Promise<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#child.kill();
    await this.#child.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
    await Deno.remove(this.dir, { recursive: true });
  }
}
