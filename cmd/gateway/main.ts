/** sbx-gateway: HTTP and WebSocket on the loopback address, in front of sbx-service (contracts.md §2). */
import { routeTable } from "../../lib/api/mod.ts";
import { asSbxError, SbxError } from "../../lib/base/error/mod.ts";
import {
  dropPermissions,
  gatewayHandler,
  lockGateway,
  newToken,
  removeGatewayFiles,
  routeMatcher,
  TokenGate,
  Upstream,
  writeGatewayFiles,
} from "../../lib/gateway/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { log, outliveRejections, say } from "../../lib/base/log/mod.ts";

/** TCP port of the gateway (spec.md, "Limits"). */
const DEFAULT_PORT = 19222;
const USAGE = `sbx-gateway [--port N]

Serves sbx's HTTP API on 127.0.0.1, port ${DEFAULT_PORT} unless --port says otherwise (0: any free one), until SIGTERM.
`;

/** Serves until SIGTERM or SIGINT; answers the exit code. */
export async function main(args: string[]): Promise<number> {
  if (args.includes("--help")) {
    console.log(USAGE.trimEnd());
    return 0;
  }
  try {
    return await serve(portOf(args));
  } catch (error) {
    const known = asSbxError(error, "starting the gateway");
    say(`sbx-gateway: ${known.message} (${known.code})`);
    if (known.hint) say(known.hint);
    if (known.code === "internal") log(known.cause);
    return known.code === "cli.usage" ? 2 : 1;
  }
}

async function serve(port: number): Promise<number> {
  const place = home();
  using _lock = await lockGateway(place);
  const token = newToken();
  const handler = gatewayHandler({
    gate: new TokenGate(token),
    routes: routeMatcher(routeTable()),
    upstream: new Upstream(place.serviceSocket),
    socketClient: Deno.createHttpClient({ proxy: { transport: "unix", path: place.serviceSocket } }),
    version: VERSION,
    log,
  });
  const ended = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, () => resolve());
  });
  // One request that goes wrong in a way that nobody awaits must not end the others.
  outliveRejections();
  await dropPermissions();
  const server = listen(port, handler);
  await writeGatewayFiles(place, token, server.addr.port);
  say(`sbx-gateway ${VERSION}: http://127.0.0.1:${server.addr.port}`);
  await ended;
  removeGatewayFiles(place);
  return 0;
}

function listen(
  port: number,
  handler: (request: Request) => Promise<Response>,
): Deno.HttpServer<Deno.NetAddr> {
  try {
    return Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, handler);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.AddrInUse)) throw cause;
    throw new SbxError("gateway.port_taken", `another program listens on 127.0.0.1:${port}`, {
      cause,
      hint: `stop it ("ss -ltnp sport = :${port}" names it), or set SBX_GATEWAY_PORT to a free port`,
    });
  }
}

function portOf(args: string[]): number {
  if (args.length === 0) return DEFAULT_PORT;
  const text = args.length === 1
    ? /^--port=(.*)$/.exec(args[0])?.[1]
    : args[0] === "--port"
    ? args[1]
    : undefined;
  if (text === undefined || args.length > 2) {
    throw new SbxError("cli.usage", `unknown arguments: ${args.join(" ")}`, {
      hint: "sbx-gateway [--port N]",
    });
  }
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65535) {
    throw new SbxError("cli.usage", `"${text}" is no port`, { hint: "a port is a number from 0 to 65535" });
  }
  return port;
}
