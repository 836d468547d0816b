/** Evidence of one session, without its traffic: files of the VM, ends of its logs, events, findings. */
import { join } from "node:path";
import type { Home } from "../../base/home/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { logTail } from "../debug/mod.ts";
import { readEvents, readFindings } from "../../ledger/read/mod.ts";
import { sessionPaths } from "../../session/files/mod.ts";

/** Most events of a bundle. */
const EVENTS_MAX = 5000;
const PAGE = 1000;
/** Most bytes of the end of each log. */
const LOG_MAX = 64 * 1024;
/** Longest text of an event, in characters. */
const TEXT_MAX = 500;
/** Fields of events that hold traffic: bodies, headers, arguments of tools, texts of models. */
const CONTENT = new Set([
  "arguments",
  "body",
  "completion",
  "content",
  "data",
  "env",
  "headers",
  "input",
  "messages",
  "output",
  "params",
  "payload",
  "preview",
  "prompt",
  "query",
  "result",
  "stderr",
  "stdin",
  "stdout",
  "text",
  "texts",
  "trailers",
  "url",
]);

/** A part of a bundle before its redaction: a text, or a value for JSON. */
export interface Part {
  path: string;
  content: string | object;
}

/** Collects the parts of a session; `session/problems.json` lists missing or damaged ones. */
export async function sessionParts(home: Home, id: string): Promise<Part[]> {
  const paths = sessionPaths(home, id);
  const problems: string[] = [];
  const parts: Part[] = [];
  const take = async (name: string, read: () => Promise<Part["content"] | undefined>) => {
    try {
      const content = await read();
      if (content !== undefined) parts.push({ path: `session/${name}`, content });
    } catch (error) {
      problems.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  await take(
    "vm.json",
    async () => withoutContent(JSON.parse(await Deno.readTextFile(paths.record))) as object,
  );
  await take(
    "state.json",
    async () => withoutContent(JSON.parse(await Deno.readTextFile(paths.state))) as object,
  );
  const logs = await Array.fromAsync(Deno.readDir(paths.logs), ({ name }) => name).catch(() => []);
  for (const name of logs.sort().slice(0, 20)) {
    const safe = name.replaceAll(/[^\w.-]/g, "_").slice(0, 60);
    await take(`logs/${safe}`, async () => {
      const { text, problem } = await logTail(name, join(paths.logs, name), LOG_MAX);
      if (problem !== undefined) throw new Error(problem);
      return text;
    });
  }
  await take("events.json", async () => ({ events: await eventsOf(paths.ledger) }));
  await take(
    "findings.json",
    async () => ({ findings: (await readFindings(paths.ledger)).map(withoutContent) }),
  );
  if (problems.length > 0) parts.push({ path: "session/problems.json", content: { problems } });
  return parts;
}

/** The last events, oldest first: a failure is at the end of a record. */
async function eventsOf(ledger: string): Promise<unknown[]> {
  await Deno.stat(ledger);
  const events: unknown[] = [];
  for (let cursor: string | undefined = "0"; cursor !== undefined;) {
    const page: Awaited<ReturnType<typeof readEvents>> = await readEvents(ledger, { cursor, limit: PAGE });
    events.push(...page.events.map(withoutContent));
    events.splice(0, events.length - EVENTS_MAX);
    cursor = page.next_cursor;
  }
  return events;
}

/** A value without fields that hold content, its texts cut. */
function withoutContent(value: unknown): unknown {
  if (typeof value === "string") return value.length > TEXT_MAX ? `${value.slice(0, TEXT_MAX)}…` : value;
  if (Array.isArray(value)) return value.map(withoutContent);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map((
      [name, item],
    ) => [name, CONTENT.has(name) ? "[left out]" : withoutContent(item)]),
  );
}
