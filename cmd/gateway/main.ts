/** sbx-gateway: HTTP and WebSocket on the loopback address, in front of sbx-service (docs/contracts.md §2). */
import { join } from "node:path";
import { UnixServer } from "../../lib/base/socket/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { home, onRemoval } from "../../lib/base/home/mod.ts";
import { log, outliveRejections, redactLog, say } from "../../lib/base/log/mod.ts";
import { runRole, unknownArguments } from "../../lib/base/role/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import {
  desktopFolder,
  DesktopGate,
  DesktopPage,
  dropPermissions,
  gatewayHandler,
  lockGateway,
  methodMatcher,
  newToken,
  removeGatewayFiles,
  ROUTES,
  Sessions,
  TokenGate,
  Upstream,
  writeGatewayFiles,
} from "../../lib/gateway/mod.ts";
import { Redactor } from "../../lib/redact/mod.ts";

/** Default TCP port (docs/contracts.md §14). */
const DEFAULT_PORT = 19222;
const NAME = "sbx-gateway";
const USAGE = `${NAME} [--port N]

Serves the HTTP API of sbx on 127.0.0.1 until SIGTERM. The default port is ${DEFAULT_PORT},
or a free one where another program has it; --port 0 selects a free one.
`;

/** Serves until SIGTERM or SIGINT. @returns the exit code */
export function main(args: string[]): Promise<number> {
  redactLog(new Redactor().text);
  return runRole({
    name: NAME,
    usage: USAGE,
    doing: "starting the gateway",
    run: (args) => serve(portOf(args)),
  }, args);
}

/** @param port none: the default port, or a free one where another user's gateway or program has that */
async function serve(port: number | undefined): Promise<number> {
  // The socket is only for its user, also where others may enter the folder.
  Deno.umask(0o077);
  const place = home();
  using _lock = await lockGateway(place);
  const token = newToken();
  const sessions = await Sessions.open(join(place.runDir, "desktop.json"));
  const parts = {
    gate: new TokenGate(token),
    desktop: new DesktopGate(sessions, new DesktopPage(desktopFolder())),
    methodsOf: methodMatcher(ROUTES),
    upstream: new Upstream(place.serviceSocket),
    socketClient: Deno.createHttpClient({ proxy: { transport: "unix", path: place.serviceSocket } }),
    version: VERSION,
    log,
  };
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, () => resolve());
  });
  // An unhandled rejection of one request must not end the others.
  outliveRejections();
  await dropPermissions();
  const server = listen(port ?? DEFAULT_PORT, gatewayHandler(parts), port === undefined);
  const socket = UnixServer.open(place.gatewaySocket, gatewayHandler(parts, "socket"));
  await writeGatewayFiles(place, token, server.addr.port);
  say(`sbx-gateway ${VERSION}: http://127.0.0.1:${server.addr.port}`);
  await Promise.race([stopped, new Promise<void>((resolve) => void onRemoval(place.dir, resolve))]);
  removeGatewayFiles(place);
  void socket.close();
  return 0;
}

function listen(
  port: number,
  handler: (request: Request) => Promise<Response>,
  orAny: boolean,
): Deno.HttpServer<Deno.NetAddr> {
  try {
    return Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, handler);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.AddrInUse)) throw cause;
    // Clients read the port from its file, never assume it: whoever has the default one gets no token of ours.
    if (orAny) return listen(0, handler, false);
    throw new SbxError("gateway.port_taken", `another program is listening on 127.0.0.1:${port}`, {
      cause,
      hint: `stop it ("ss -ltnp sport = :${port}" shows it), or set SBX_GATEWAY_PORT to a free port`,
    });
  }
}

function portOf(args: string[]): number | undefined {
  if (args.length === 0) return undefined;
  const text = args.length === 1
    ? /^--port=(.*)$/.exec(args[0])?.[1]
    : args[0] === "--port"
    ? args[1]
    : undefined;
  if (text === undefined || args.length > 2) {
    throw unknownArguments(NAME, args);
  }
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65535) {
    throw new SbxError("usage.invalid", `invalid port "${text}"`, {
      hint: "a port is a number from 0 to 65535",
    });
  }
  return port;
}
