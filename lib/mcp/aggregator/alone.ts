/**
 * An aggregator started by hand: this process is its way to the network, and a child process does the work.
 */
import { ignore } from "../../base/error/mod.ts";
import { say } from "../../base/log/mod.ts";
import { type AggregatorDefinition, readDefinitions } from "../definition.ts";
import { spawnAggregator } from "../driver/spawn.ts";
import { OutboundServer } from "../outbound/mod.ts";
import { hostNetwork } from "../../base/proxy/mod.ts";
import { LineWriter, readLines, readRequest, valueOf } from "../protocol.ts";
import { confineProcess } from "../../../ffi/host/confine.ts";

/**
 * Passes stdin on line by line, and reads the definitions in it: the child may reach those servers. Has no
 * credentials, so servers with `auth` are not connected.
 *
 * @param command aggregator to start
 * @returns its exit code
 */
export async function runAlone(command: string[]): Promise<number> {
  const outbound = new OutboundServer([]);
  const dir = await Deno.makeTempDir({ prefix: "sbx-mcp-" });
  const { child, connected } = spawnAggregator(command, dir, outbound, "inherit");
  try {
    await connected;
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
  (await hostNetwork()).prepare();
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
      say(`sbx-mcp-aggregator: skipped: ${line.problem}`);
      // The first line stands for the definitions, even an unreadable one.
      if (isFirst) writer.write("[]");
      isFirst = false;
      continue;
    }
    const definitions = isFirst ? readDefinitions(valueOf(line.text))?.definitions : readRefresh(line.text);
    if (definitions) outbound.allow(definitions);
    isFirst = false;
    writer.write(line.text);
    await writer.flush();
  }
  await writer.flush();
  await pipe.close().catch(ignore("the child has exited"));
}

/** Definitions of a `refresh` request. */
function readRefresh(line: string): AggregatorDefinition[] | undefined {
  if (!line.includes('"refresh"')) return undefined;
  const request = readRequest(line);
  if (request?.method !== "refresh") return undefined;
  return readDefinitions((request.params as { servers?: unknown } | undefined)?.servers)?.definitions;
}

// Permissions of sbx-mcp-aggregator while it serves: its pipes and the
// connection to its parent, nothing else.

/**
 * Permissions revoked before the first byte of input is read. HTTP goes over the connection to the parent, so
 * it needs no network. Deno restores a permission only by a prompt at a terminal. From source the module
 * loader checks `read`; in a compiled program it does not, one reason for {@linkcode confine}.
 */
export const REVOKED = ["net", "read", "write", "run", "env", "sys", "ffi", "import"] as const;

/**
 * Revokes all permissions and installs a kernel filter: no code in this process can
 * open a file or a socket any more.
 *
 * @returns false where the kernel has no such filter and only Deno's permissions apply
 */
export async function confine(): Promise<boolean> {
  const isFiltered = confineProcess();
  await dropPermissions();
  return isFiltered;
}

/** Revokes permissions for the rest of the process, {@linkcode REVOKED} by default. */
export async function dropPermissions(names: readonly (typeof REVOKED[number])[] = REVOKED): Promise<void> {
  for (const name of names) await Deno.permissions.revoke({ name });
}
