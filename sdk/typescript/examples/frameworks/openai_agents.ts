/**
 * Tools of OpenAI's Agents SDK (`@openai/agents`, `zod`) that work in a VM: a program, and files.
 *
 *     const agent = new Agent({ name: "Coder", instructions, tools: vmTools(vm) });
 *     const { finalOutput } = await run(agent, "Mend the tests.");
 */
import { type Sandbox, SbxError } from "@sbx/sdk";
import { tool } from "@openai/agents";
import { z } from "zod";

/** Seconds of one program. */
const TIMEOUT = 300;

/** The model gets a refusal as text, and goes on; another error ends its work. */
function errorFunction(_context: unknown, error: unknown): string {
  if (error instanceof SbxError) return `${error.code}: ${error.message}`;
  throw error;
}

export function vmTools(vm: Sandbox) {
  return [
    tool({
      name: "run",
      description: "Runs a shell command in the VM.",
      parameters: z.object({ command: z.string() }),
      errorFunction,
      execute: async ({ command }) => {
        const { stdout, stderr, exitCode } = await vm.exec(command, {
          timeout: TIMEOUT,
        });
        return JSON.stringify({ stdout, stderr, exitCode });
      },
    }),
    tool({
      name: "read_file",
      description: "Reads a file of the VM.",
      parameters: z.object({ path: z.string() }),
      errorFunction,
      execute: ({ path }) => vm.files.readText(path),
    }),
    tool({
      name: "write_file",
      description: "Writes a file of the VM.",
      parameters: z.object({ path: z.string(), content: z.string() }),
      errorFunction,
      execute: async ({ path, content }) => {
        await vm.files.write(path, content);
        return "written";
      },
    }),
  ];
}
