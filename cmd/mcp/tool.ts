/** Tools of sbx-mcp, and their registration with the MCP server. */
// @ts-types="@modelcontextprotocol/sdk/server/mcp"
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";
import { asSbxError, ignore, type SbxError } from "../../lib/base/error/mod.ts";
import { log } from "../../lib/base/log/mod.ts";
import { Client, type RequestParts } from "../../lib/client/mod.ts";
import type { Host, OwnVms } from "./host.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { readTraceparent } from "../../lib/event/mod.ts";

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
interface Hints {
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
      sendNotification({ method: "notifications/progress", params }).catch(ignore("the agent has left"));
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

// Remedies of the API, which are written for the CLI, in the words of tools.

const TOOL_OF: [RegExp, string][] = [
  [/\bsbx profile list\b/g, "`profiles`"],
  [/\bsbx mcp (?:tools|servers)(?: -p \S+)?/g, "`mcp_tools`"],
  [/\bsbx create --profile (\S+)/g, "`create` with profile_id $1"],
  [/\bsbx why ([0-9a-f]{12})\b/g, "`why` with event_id $1"],
  [/\bsbx jobs logs(?: --follow)? ([0-9a-f]{8})\b/g, "`job_logs` with job $1"],
  [/\bsbx jobs stop ID\b/g, "`stop_job`"],
  [/\bsbx services\b(?! [a-z]+ [A-Z])/g, "`jobs`"],
  [/\bsbx jobs\b(?! [a-z]+ [0-9a-f])/g, "`jobs`"],
  [/\bsbx port NAME (?:PORT|\d+) --remove\b/g, "`close_port`"],
  [/\bsbx port NAME\b(?! [A-Z\d])/g, "`ports`"],
  [/\bsbx (list|info|delete|logs|events|asks)\b/g, "`$1`"],
  [/\bsbx start (?=boots)/g, "`start` "],
  [/\b(stop one with) sbx stop\b/g, "$1 `stop`"],
];
/** A command of the CLI that no tool replaces. */
const COMMAND = /\bsbx [a-z]+\b/;

/** Names tools where there is one; what only a person can do is for the agent's user. */
export function hintForAgent(hint: string): string {
  const text = TOOL_OF.reduce((text, [command, tool]) => text.replace(command, tool), hint);
  return COMMAND.test(text) ? `for the person you work for: ${text}` : text;
}

// Who a tool call came from: the MCP client, as it names itself.

/** Longest name and version of a client that are passed on, in characters. */
const NAME_MAX = 64;

/**
 * `User-Agent` of the requests of one call.
 * @param client of MCP's `initialize`; unknown over HTTP, which has no sessions
 */
export function agentOf(client: { name: string; version: string } | undefined): string {
  const own = `sbx-mcp/${VERSION}`;
  if (!client) return own;
  return `${own} (${[client.name, client.version].map(wordOf).join("/")})`;
}

/** Header that passes on the trace of a call, from `_meta.traceparent` (MCP, SEP-414). */
export function traceOf(meta: Record<string, unknown> | undefined): Record<string, string> {
  const { traceparent } = meta ?? {};
  return typeof traceparent === "string" && readTraceparent(traceparent) !== undefined ? { traceparent } : {};
}

/** Text of a client as a part of a header: visible ASCII without brackets. */
function wordOf(text: string): string {
  return text.replaceAll(/[^\x21-\x27\x2a-\x7e]/g, "_").slice(0, NAME_MAX);
}

/** `bytes` of a result as JSON (docs/design/contracts/14-limits.md §14). */
const RESULT_BYTES_MAX = 512 * 1024;
/** Characters of a text that is always kept: names, ids and times stay whole. */
const CHARS_MIN = 256;
/** First limit of each text in characters, and texts' characters for one item of a list. */
const CHARS_MAX = 128 * 1024;
const CHARS_PER_ITEM = 64;

/**
 * Cuts the longest texts, then lists, until the result fits. The shape stays the same, and a call whose
 * effect has happened keeps its answer.
 */
export function fitResult(
  result: Record<string, unknown>,
  max = RESULT_BYTES_MAX,
): { result: Record<string, unknown>; isCut: boolean } {
  let fitting = result;
  for (let chars = CHARS_MAX; jsonBytes(fitting) > max && chars >= CHARS_MIN; chars /= 2) {
    fitting = cut(result, chars) as Record<string, unknown>;
  }
  return { result: fitting, isCut: fitting !== result };
}

export function jsonBytes(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).length;
}

function cut(value: unknown, chars: number): unknown {
  if (typeof value === "string") {
    const omitted = value.length - chars;
    return omitted > 0 ? `${value.slice(0, chars).toWellFormed()}… (${omitted} characters omitted)` : value;
  }
  if (typeof value !== "object" || value === null) return value;
  const items = chars / CHARS_PER_ITEM;
  if (Array.isArray(value)) return value.slice(0, items).map((item) => cut(item, chars));
  return Object.fromEntries(
    Object.entries(value).slice(0, items).map(([name, member]) => [name, cut(member, chars)]),
  );
}

export const vm = z.string().min(1).max(128).describe("name or id of the VM; `list` shows them");
