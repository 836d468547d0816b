/** What a tool of sbx-mcp is, and how it is put before an agent. */
// @ts-types="@modelcontextprotocol/sdk/server/mcp"
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { z } from "zod";
import type { Client } from "../../lib/client/mod.ts";
import { asSbxError, type SbxError } from "../../lib/base/error/mod.ts";
import type { Host } from "./host.ts";
import { log } from "../../lib/base/log/mod.ts";

/** What a call may use. */
export interface Context {
  client: Client;
  /** aborts when the agent cancels the call */
  signal: AbortSignal;
  /** tells an agent that wants to know how far the call is; at most some lines a second */
  progress(message: string): void;
}

/** MCP's hints, all of them, so that nobody has to guess. */
export interface Hints {
  readOnly: boolean;
  destructive: boolean;
  idempotent: boolean;
  /** it may reach what is outside of sbx, such as the network, as far as the VM's policy lets it */
  openWorld: boolean;
}

/** One tool. Its input is strict: an agent is told of a name that it has made up. */
export interface Tool<I extends z.ZodObject = z.ZodObject, O extends z.ZodObject = z.ZodObject> {
  name: string;
  title: string;
  /** for an agent: what it does, when to use it, what to do next */
  description: string;
  input: I;
  output: O;
  hints: Hints;
  run(input: z.output<I>, context: Context): Promise<z.input<O>>;
}

/** A tool whose types hold together, as one of a list. */
export function tool<I extends z.ZodObject, O extends z.ZodObject>(definition: Tool<I, O>): Tool {
  return definition as unknown as Tool;
}

/** Milliseconds between two notifications of progress. */
const PROGRESS_INTERVAL_MS = 250;

/** Offers a tool; whatever goes wrong in it is a tool error that says what happened and what to do. */
export function offer(
  server: McpServer,
  host: Host,
  { name, title, description, input, output, hints, run }: Tool,
) {
  const annotations = {
    title,
    readOnlyHint: hints.readOnly,
    destructiveHint: hints.destructive,
    idempotentHint: hints.idempotent,
    openWorldHint: hints.openWorld,
  };
  const config = { title, description, inputSchema: input, outputSchema: output, annotations };
  server.registerTool(name, config, async (args, { signal, _meta, sendNotification }) => {
    const token = _meta?.progressToken;
    let step = 0;
    let last = -Infinity;
    const progress = (message: string) => {
      if (token === undefined || performance.now() - last < PROGRESS_INTERVAL_MS) return;
      last = performance.now();
      const params = { progressToken: token, progress: ++step, message };
      sendNotification({ method: "notifications/progress", params }).catch(() => {});
    };
    try {
      const result = await host.use((client) => run(args, { client, signal, progress }));
      // Only what the schema names: the service may answer more one day, and clients check it.
      const structuredContent = output.parse(result) as Record<string, unknown>;
      return { structuredContent, content: [{ type: "text", text: JSON.stringify(structuredContent) }] };
    } catch (error) {
      return { isError: true, content: [{ type: "text", text: textOf(asSbxError(error, name)) }] };
    }
  });
}

function textOf({ message, code, hint, cause }: SbxError): string {
  if (code === "internal") log(`sbx-mcp: ${message}:`, cause);
  return `${message} (${code})${hint ? `\n${hint}` : ""}`;
}
