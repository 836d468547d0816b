/**
 * Tools of the Vercel AI SDK (`ai`, `zod`) that work in a VM: a program, and files.
 *
 *     const { text } = await generateText({ model, prompt, tools: vmTools(vm), stopWhen: isStepCount(20) });
 */
import { type Sandbox, SbxError } from "@sbx/sdk";
import { tool } from "ai";
import { z } from "zod";

/** Seconds of one program. */
const TIMEOUT = 300;

export function vmTools(vm: Sandbox) {
  return {
    run: tool({
      description: "Runs a shell command in the VM.",
      inputSchema: z.object({ command: z.string() }),
      execute: async ({ command }) => {
        const { stdout, stderr, exitCode, eventId } = await vm.exec(command, {
          timeout: TIMEOUT,
        });
        return { stdout, stderr, exitCode, eventId };
      },
    }),
    readFile: tool({
      description: "Reads a file of the VM.",
      inputSchema: z.object({ path: z.string() }),
      execute: ({ path }) => vm.files.readText(path).catch(asText),
    }),
    writeFile: tool({
      description: "Writes a file of the VM.",
      inputSchema: z.object({ path: z.string(), content: z.string() }),
      execute: ({ path, content }) => vm.files.write(path, content).then(() => "written", asText),
    }),
  };
}

/** The model gets a refusal as text, and goes on; another error ends its work. */
function asText(error: unknown): string {
  if (error instanceof SbxError) return `${error.code}: ${error.message}`;
  throw error;
}
