/** Starting an aggregator process and the private wire to it. */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import type { OutboundServer } from "../outbound/mod.ts";

/** Longest path of a UDS that the kernel takes. */
const SOCKET_PATH_MAX = 107;
/** Time that a new aggregator has to connect; a loaded machine takes its time. */
const ACCEPT_MS = 30_000;
/** Memory that its JavaScript may take, MB. */
const HEAP_MB = 512;

export interface AggregatorProcess {
  child: Deno.ChildProcess;
  /** settles when the private wire is there; rejects when it never will be */
  connected: Promise<void>;
}

/**
 * Starts a program with the private wire's socket as its only argument. The socket takes one connection and is gone.
 *
 * @param dir a folder that only this user may enter
 * @param stdout `inherit` hands the answers on as they are
 * @throws {SbxError} `mcp.failed` when the socket cannot be made or the program cannot be started
 */
export function startAggregator(
  [program, ...args]: string[],
  dir: string,
  outbound: OutboundServer,
  stdout: "piped" | "inherit",
): AggregatorProcess {
  const path = join(dir, `mcp-${crypto.randomUUID().slice(0, 8)}.sock`);
  if (path.length > SOCKET_PATH_MAX) {
    throw new SbxError("mcp.failed", `the path ${path} is too long for a socket`, {
      hint: "set SBX_RUN_DIR to a shorter path",
    });
  }
  let listener: Deno.UnixListener;
  const previous = Deno.umask(0o077);
  try {
    listener = Deno.listen({ transport: "unix", path });
  } catch (cause) {
    throw new SbxError("mcp.failed", `the socket ${path} cannot be made`, { cause });
  } finally {
    Deno.umask(previous);
  }
  const forget = () => {
    try {
      listener.close();
      Deno.removeSync(path);
    } catch {
      // gone already
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
    forget();
    throw new SbxError("mcp.failed", `${program} cannot be started`, { cause });
  }
  return { child, connected: accept(listener, child, outbound).finally(forget) };
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

/** Nothing of the parent's environment but what a program needs to be found and started. */
function environment(): Record<string, string> {
  const env: Record<string, string> = { DENO_V8_FLAGS: `--max-old-space-size=${HEAP_MB}`, NO_COLOR: "1" };
  for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
    const value = Deno.env.get(name);
    if (value) env[name] = value;
  }
  return env;
}
