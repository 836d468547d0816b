/** Starts an aggregator process and the private wire to it. */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { TIME_FACTOR_VARIABLE, timeLimit } from "../../base/time/mod.ts";
import type { OutboundServer } from "../outbound/mod.ts";

/** Longest path of a Unix socket that the kernel accepts, in `bytes`. */
const SOCKET_PATH_MAX = 107;
/** `ms` for a new aggregator to connect; long because the machine may be loaded. */
const ACCEPT_MS = timeLimit(30_000);
/** JavaScript heap of the aggregator in `MB`. */
const HEAP_MB = 512;

export interface SpawnedAggregator {
  child: Deno.ChildProcess;
  /** settles when the private wire is connected; rejects when the aggregator does not connect */
  connected: Promise<void>;
}

/**
 * Starts a program with the path of the private wire's socket. The socket accepts one
 * connection and is then removed.
 *
 * @param dir folder accessible to this user only
 * @param stdout `inherit` passes the answers on unread
 * @throws {SbxError} `mcp.unavailable`: the socket cannot be created or the program cannot be started
 */
export function spawnAggregator(
  [program, ...args]: string[],
  dir: string,
  outbound: OutboundServer,
  stdout: "piped" | "inherit",
): SpawnedAggregator {
  const path = join(dir, `mcp-${crypto.randomUUID().slice(0, 8)}.sock`);
  if (path.length > SOCKET_PATH_MAX) {
    throw new SbxError("mcp.unavailable", `the socket path ${path} is longer than ${SOCKET_PATH_MAX} bytes`, {
      hint: "set SBX_RUN_DIR to a shorter path",
    });
  }
  let listener: Deno.UnixListener;
  const previous = Deno.umask(0o077);
  try {
    listener = Deno.listen({ transport: "unix", path });
  } catch (cause) {
    throw new SbxError("mcp.unavailable", `cannot create the socket ${path}`, { cause });
  } finally {
    Deno.umask(previous);
  }
  const removeSocket = () => {
    try {
      listener.close();
      Deno.removeSync(path);
    } catch {
      // already removed
    }
  };
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(program, {
      args: [...args, "--outbound", path],
      clearEnv: true,
      env: environment(),
      stdin: "piped",
      stdout,
      stderr: "inherit",
    }).spawn();
  } catch (cause) {
    removeSocket();
    throw new SbxError("mcp.unavailable", `cannot start ${program}`, { cause });
  }
  return { child, connected: accept(listener, child, outbound).finally(removeSocket) };
}

async function accept(
  listener: Deno.UnixListener,
  child: Deno.ChildProcess,
  outbound: OutboundServer,
): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ACCEPT_MS);
    child.status.then(() => resolve(undefined));
  });
  const accepted = listener.accept().catch(() => undefined);
  const conn = await Promise.race([accepted, late]);
  clearTimeout(timer);
  if (!conn) throw new SbxError("mcp.channel_closed", "the MCP aggregator did not connect to this process");
  outbound.serve(conn);
}

/** The part of the parent's environment that a program needs to start. */
function environment(): Record<string, string> {
  const env: Record<string, string> = { DENO_V8_FLAGS: `--max-old-space-size=${HEAP_MB}`, NO_COLOR: "1" };
  for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR", "SBX_LOG", TIME_FACTOR_VARIABLE]) {
    const value = Deno.env.get(name);
    if (value) env[name] = value;
  }
  return env;
}
