/** Tools of sbx-mcp, and their registration with the MCP server. */
// @ts-types="@modelcontextprotocol/sdk/server/mcp"
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { z } from "zod";
import { asSbxError, type SbxError } from "../../lib/base/error/mod.ts";
import { log } from "../../lib/base/log/mod.ts";
import { Client, type RequestParts } from "../../lib/client/mod.ts";
import { agentOf, traceOf } from "./caller.ts";
import { fitResult, RESULT_BYTES_MAX } from "./fit.ts";
import { hintForAgent } from "./hint.ts";
import type { Host } from "./host.ts";
import type { OwnVms } from "./own_vms.ts";

/** Context of a call. */
export interface Context {
  /** its requests end when the agent cancels the call */
  client: Client;
  vms: OwnVms;
  /** id of a VM that the agent may touch. @throws {SbxError} `vm.not_found` */
  vm(idOrName: string): Promise<string>;
  /** reports progress if the agent requests it; at most a few lines per second, unless it is important */
  progress(message: string, important?: boolean): void;
}

/** All hints of MCP; none is left to its default. */
export interface Hints {
  readOnly: boolean;
  destructive: boolean;
  idempotent: boolean;
  /** may access systems outside sbx, such as the network, within the VM's policy */
  openWorld: boolean;
}

/** One tool. Its input schema is strict: an unknown argument is an error. */
export interface Tool<I extends z.ZodObject = z.ZodObject, O extends z.ZodObject = z.ZodObject> {
  name: string;
  title: string;
  /** text for the agent: purpose, when to use it, next steps */
  description: string;
  input: I;
  output: O;
  hints: Hints;
  run(input: z.output<I>, context: Context): Promise<z.input<O>>;
}

/** Checks the types of a tool, and erases them for a list of tools. */
export function tool<I extends z.ZodObject, O extends z.ZodObject>(definition: Tool<I, O>): Tool {
  return definition as unknown as Tool;
}

/** `ms` between two progress notifications. */
const PROGRESS_INTERVAL_MS = 250;

/** Registers a tool; every failure is a tool error with a message and a hint. */
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
    const progress = (message: string, important = false) => {
      if (token === undefined) return;
      if (!important && performance.now() - last < PROGRESS_INTERVAL_MS) return;
      last = performance.now();
      const params = { progressToken: token, progress: ++step, message };
      sendNotification({ method: "notifications/progress", params }).catch(() => {});
    };
    try {
      const result = await host.use((open) => {
        const client = new CallClient(open, signal, {
          "user-agent": agentOf(server.server.getClientVersion()),
          ...traceOf(_meta),
        });
        const { vms } = host;
        return run(args, { client, vms, vm: (idOrName) => vms.find(client, idOrName), progress });
      });
      // Fields outside the schema are dropped: a newer service may add some, and clients validate the result.
      const { result: structuredContent, isCut } = fitResult(output.parse(result));
      const content = [{ type: "text" as const, text: JSON.stringify(structuredContent) }];
      if (isCut) {
        content.push({ type: "text", text: `cut to ${RESULT_BYTES_MAX} bytes: ask for less at once` });
      }
      log.debug(`sbx-mcp: ${name}`);
      return { structuredContent, content };
    } catch (error) {
      const failure = asSbxError(error, name);
      log.debug(`sbx-mcp: ${name}: ${failure.code}`);
      return { isError: true, content: [{ type: "text", text: textOf(failure) }] };
    }
  });
}

function textOf({ message, code, hint, cause }: SbxError): string {
  if (code === "internal") log.error(`sbx-mcp: ${message}:`, cause);
  return `${message} (${code})${hint ? `\n${hintForAgent(hint)}` : ""}`;
}

/** Client of one call, whose requests end with it. */
class CallClient extends Client {
  readonly #signal: AbortSignal;
  readonly #headers: Record<string, string>;

  constructor({ base, token, http }: Client, signal: AbortSignal, headers: Record<string, string>) {
    super(base, token, http);
    this.#signal = signal;
    this.#headers = headers;
  }

  override send(method: string, path: string, parts: RequestParts = {}): Promise<Response> {
    return super.send(method, path, {
      signal: this.#signal,
      headers: this.#headers,
      ...parts,
    });
  }
}
