/**
 * sbx-gateway: HTTP and WebSocket on the loopback address, in front of sbx-service
 * (docs/design/contracts/02-http.md §2).
 */
import { join } from "node:path";
import { UnixServer } from "../../lib/base/socket/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { home, onRemoval, removeIfThere } from "../../lib/base/home/mod.ts";
import { log, outliveRejections, redactLog, say } from "../../lib/base/log/mod.ts";
import { runRole, unknownArguments } from "../../lib/base/role/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import {
  desktopFolder,
  DesktopGate,
  DesktopPage,
  dropPermissions,
  gatewayHandler,
  GatewayRun,
  lockGateway,
  methodMatcher,
  newToken,
  removeGatewayFiles,
  ROUTES,
  Sessions,
  TokenGate,
  Upstream,
  writeGatewayFiles,
} from "../../lib/client/gateway/mod.ts";
import { GATEWAY_PORT, rememberPort } from "../../lib/base/port/mod.ts";
import { Redactor } from "../../lib/base/redact/mod.ts";

/** Free ports of 127.0.0.1 that are tried until one is free on ::1 too. */
const FREE_PORT_TRIES = 16;
const NAME = "sbx-gateway";
const USAGE = `${NAME} [--port N]

Serves the HTTP API of sbx on 127.0.0.1 until SIGTERM. The default port is ${GATEWAY_PORT},
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
  // Sessions of earlier versions, which outlived their gateway.
  removeIfThere(join(place.runDir, "desktop.json"));
  const parts = {
    gate: new TokenGate(token),
    desktop: new DesktopGate(await GatewayRun.make(), new Sessions(), new DesktopPage(desktopFolder())),
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
  const taken = listen(port ?? GATEWAY_PORT, gatewayHandler(parts), port === undefined);
  const socket = UnixServer.open(place.gatewaySocket, gatewayHandler(parts, "socket"));
  await rememberPort(place, taken);
  await writeGatewayFiles(place, token, taken);
  say(`sbx-gateway ${VERSION}: http://127.0.0.1:${taken}`);
  await Promise.race([stopped, new Promise<void>((resolve) => void onRemoval(place.dir, resolve))]);
  removeGatewayFiles(place);
  void socket.close();
  return 0;
}

/**
 * Listens on a port of both loopback addresses: browsers try both for the host of the desktop page, so
 * another user must not have either.
 *
 * @returns the port
 */
function listen(port: number, handler: (request: Request) => Promise<Response>, orAny: boolean): number {
  for (let tries = 0;; tries++) {
    try {
      return listenOnBoth(port, handler);
    } catch (cause) {
      if (!(cause instanceof Deno.errors.AddrInUse)) throw cause;
      // Clients read the port from its file, never assume it: another program on
      // the default one gets no token.
      if (orAny) port = 0;
      if (port === 0 && tries < FREE_PORT_TRIES) continue;
      throw new SbxError(
        "gateway.port_taken",
        `another program is listening on port ${port} of this machine`,
        {
          cause,
          hint: `stop it ("ss -ltnp sport = :${port}" shows it), or set SBX_GATEWAY_PORT to a free port`,
        },
      );
    }
  }
}

function listenOnBoth(port: number, handler: (request: Request) => Promise<Response>): number {
  const first = Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, handler);
  try {
    Deno.serve({ hostname: "::1", port: first.addr.port, onListen() {} }, handler);
  } catch (cause) {
    if (cause instanceof Deno.errors.AddrInUse) {
      void first.shutdown();
      throw cause;
    }
    log.debug(`no IPv6 on the loopback interface: ${cause}`);
  }
  return first.addr.port;
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
