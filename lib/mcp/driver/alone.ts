/** An aggregator that somebody starts by hand: this process is its way to the network, and a second one does the work. */
import { dropPermissions } from "../aggregator/permission.ts";
import { type AggregatorDefinition, readDefinitions } from "../definition.ts";
import { LineWriter, readLines } from "../ndjson.ts";
import { OutboundServer } from "../outbound/mod.ts";
import { readRequest } from "../protocol.ts";
import { say } from "../../base/log/mod.ts";
import { startAggregator } from "./process.ts";

/**
 * Passes stdin on line by line, and reads the definitions in it: they are what its child may reach. It knows no
 * credentials, so servers with `auth` are not connected.
 *
 * @param command the aggregator that is to be started
 * @returns its exit code
 */
export async function runAlone(command: string[]): Promise<number> {
  const outbound = new OutboundServer([]);
  const dir = await Deno.makeTempDir({ prefix: "sbx-mcp-" });
  const { child, connected } = startAggregator(command, dir, outbound, "inherit");
  try {
    await connected;
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
  await dropPermissions(["read", "write", "run", "env", "sys", "ffi", "import"]);
  relay(child.stdin, outbound);
  const { code } = await child.status;
  outbound.close();
  return code;
}

async function relay(stdin: WritableStream<Uint8Array>, outbound: OutboundServer): Promise<void> {
  const pipe = stdin.getWriter();
  const writer = new LineWriter({ write: (bytes) => pipe.write(bytes) });
  let isFirst = true;
  for await (const line of readLines(Deno.stdin)) {
    if ("problem" in line) {
      say(`sbx-mcp-aggregator: ${line.problem}; it is skipped`);
      // The first line is the definitions, whatever becomes of it.
      if (isFirst) writer.write("[]");
      isFirst = false;
      continue;
    }
    const definitions = isFirst ? firstDefinitions(line.text) : refreshedDefinitions(line.text);
    if (definitions) outbound.allow(definitions);
    isFirst = false;
    writer.write(line.text);
    await writer.flushed();
  }
  await writer.flushed();
  await pipe.close().catch(() => {});
}

function firstDefinitions(line: string): AggregatorDefinition[] | undefined {
  try {
    return readDefinitions(JSON.parse(line))?.definitions;
  } catch {
    return undefined;
  }
}

function refreshedDefinitions(line: string): AggregatorDefinition[] | undefined {
  if (!line.includes('"refresh"')) return undefined;
  const request = readRequest(line);
  if (request?.method !== "refresh") return undefined;
  return readDefinitions((request.params as { servers?: unknown } | undefined)?.servers)?.definitions;
}
