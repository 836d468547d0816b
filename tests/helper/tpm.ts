/** A TPM 2.0 in software (swtpm), with a state of its own. */
import { join } from "node:path";
import { runChild } from "./child.ts";
import { exists } from "./exists.ts";
import { eventually } from "./sbx.ts";

export class SoftTpm implements AsyncDisposable {
  private constructor(
    readonly dir: string,
    readonly process: Deno.ChildProcess,
  ) {}

  /** @param dir folder that is there, with a short path: it has Unix sockets */
  static async start(dir: string): Promise<SoftTpm> {
    const socket = join(dir, "tpm");
    const process = new Deno.Command("swtpm", {
      args: [
        ...["socket", "--tpm2", "--tpmstate", `dir=${dir}`],
        ...["--server", `type=unixio,path=${socket}`, "--ctrl", `type=unixio,path=${socket}.ctrl`],
        ...["--flags", "not-need-init,startup-clear"],
      ],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    const tpm = new SoftTpm(dir, process);
    await eventually("the TPM listens", async () => await exists(socket) && await exists(`${socket}.ctrl`));
    return tpm;
  }

  /** Variables with which tpm2-tools reach it. */
  get variables(): Record<string, string> {
    return { TPM2TOOLS_TCTI: `swtpm:path=${join(this.dir, "tpm")}` };
  }

  /** Runs one of tpm2-tools. @returns its exit code */
  async run(tool: string, ...args: string[]): Promise<number> {
    return (await runChild(tool, { args, env: this.variables })).code;
  }

  async [Symbol.asyncDispose]() {
    try {
      this.process.kill();
    } catch {
      // A test has ended it.
    }
    await this.process.status;
  }
}
