/** Ports of this machine that are kept for sbx's own servers (docs/guides/ports.md). */
import { join } from "node:path";
import { type Home, writeAtomic } from "../home/mod.ts";

/** Default port of the gateway, and of sbx-mcp over HTTP (docs/design/contracts/14-limits.md §14). */
export const GATEWAY_PORT = 19222, MCP_PORT = 19223;
/** Ports that are remembered; one more replaces the oldest. */
const REMEMBERED_MAX = 64;

type Place = Pick<Home, "dir">;

/**
 * Ports that never lead into a VM, also while their server is away: the defaults, the port in
 * `SBX_GATEWAY_PORT`, and every port that a server of this home has had. Else a person's bookmark, tab or
 * client would send sbx's data to a guest.
 */
export function reservedPorts(place: Place, env: Pick<typeof Deno.env, "get"> = Deno.env): Set<number> {
  return new Set([GATEWAY_PORT, MCP_PORT, Number(env.get("SBX_GATEWAY_PORT") ?? 0), ...remembered(place)]);
}

/** Keeps a port for the servers of this home, from now on. */
export async function rememberPort(place: Place, port: number): Promise<void> {
  const others = remembered(place).filter((each) => each !== port);
  const ports = [...others, port].slice(-REMEMBERED_MAX);
  await writeAtomic(fileOf(place), JSON.stringify(ports));
}

/** A file that is damaged says nothing; the next server writes another. */
function remembered(place: Place): number[] {
  try {
    const ports: unknown = JSON.parse(Deno.readTextFileSync(fileOf(place)));
    return Array.isArray(ports) ? ports.filter((port) => Number.isInteger(port)) : [];
  } catch {
    return [];
  }
}

/** Beside the run folder, which is emptied with the machine. */
function fileOf({ dir }: Place): string {
  return join(dir, "ports.json");
}
