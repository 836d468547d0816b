import type { VmInfo, VmSummary } from "../../../lib/client/api/mod.ts";
import type { Command } from "../../../lib/base/args/mod.ts";
import { asSbxError, SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { attach } from "./attach.ts";
import { connect } from "../connect.ts";
import { printError, usageError } from "../output.ts";

/** Runs `postAttachCommand` of the VM's `devcontainer.json`. A failure does not keep a person out. */
async function runAttachCommands(client: Client, vm: Pick<VmSummary, "id" | "name">): Promise<void> {
  const { devcontainer } = await client.json<VmInfo>("GET", `/vms/${segment(vm.id)}/info`);
  if (!devcontainer?.commands?.some(({ name }) => name === "postAttachCommand")) return;
  const { runCommands } = await import("./lifecycle.ts");
  try {
    await runCommands(client, vm, devcontainer, ["postAttachCommand"]);
  } catch (error) {
    printError(asSbxError(error, "the commands of devcontainer.json"), false);
  }
}

/**
 * Program of the VM's shared terminal. Input that is not a terminal gets a separate shell, since
 * its end would end the shared one.
 */
const LOGIN_SHELL = ["/bin/bash", "--login"];

export const command: Command = {
  name: "shell",
  usage: "NAME [-- CMD…]",
  summary: "open a terminal in a running VM; ctrl-] detaches",
  notes: [
    "A second sbx shell joins the first one's terminal. With CMD, or with input that is not a terminal, it opens a separate one, which ends with that input.",
    "The exit code is 0, whatever the shell returns; sbx exec returns the program's.",
  ],
  options: [],
  words: { min: 1, max: 1 },
  program: true,
  completes: ["vms"],
  examples: ["sbx shell demo", "sbx shell demo -- top", "sbx shell demo < commands.txt"],
  async run(args) {
    if (args.program?.length === 0) throw usageError(command, "missing program after --");
    const program = args.program ?? (Deno.stdin.isTerminal() ? undefined : LOGIN_SHELL);
    const argv = program && JSON.stringify(program);
    const [name] = args.words;
    const client = await connect();
    // Reports errors that a rejected WebSocket would hide.
    const { id, status } = await client.json<VmSummary>("GET", `/vms/${segment(name)}/status`);
    if (program === undefined && status === "Running") await runAttachCommands(client, { id, name });
    const socket = client.socket(`/terminal/${segment(name)}`, { argv });
    const doing = status === "Suspended" ? `resuming ${name}` : undefined;
    const { code, reason } = await attach(socket, `the terminal of "${name}"`, true, { doing });
    if (code === 1000) return 0;
    throw new SbxError("process.gone", reason || `the connection to the terminal of "${name}" was lost`, {
      hint: `sbx info ${name} shows whether the VM is still running`,
    });
  },
};
