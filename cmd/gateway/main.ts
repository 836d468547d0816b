/** sbx-gateway: HTTP and WebSocket on the loopback address, in front of sbx-service (docs/contracts.md §2). */
import { join } from "node:path";
import { asSbxError, SbxError } from "../../lib/base/error/mod.ts";
import { home, onRemoval } from "../../lib/base/home/mod.ts";
import { log, outliveRejections, redactLog, say } from "../../lib/base/log/mod.ts";
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
const USAGE = `sbx-gateway [--port N]

Serves the HTTP API of sbx on 127.0.0.1 until SIGTERM. The default port is ${DEFAULT_PORT},
or a free one where another program has it; --port 0 selects a free one.
`;

/** Serves until SIGTERM or SIGINT. @returns the exit code */
export async function main(args: string[]): Promise<number> {
  if (args.includes("--help")) {
    console.log(USAGE.trimEnd());
    return 0;
  }
  redactLog(new Redactor().text);
  try {
    return await serve(portOf(args));
  } catch (error) {
    const failure = asSbxError(error, "starting the gateway");
    say(`sbx-gateway: ${failure.message} (${failure.code})`);
    if (failure.hint) say(failure.hint);
    if (failure.code === "internal") log.error(failure.cause);
    return failure.code === "cli.usage" ? 2 : 1;
  }
}

/** @param port none: the default port, or a free one where another user's gateway or program has that */
async function serve(port: number | undefined): Promise<number> {
  const place = home();
  using _lock = await lockGateway(place);
  const token = newToken();
  const sessions = await Sessions.open(join(place.runDir, "desktop.json"));
  const handler = gatewayHandler({
    gate: new TokenGate(token),
    desktop: new DesktopGate(sessions, new DesktopPage(desktopFolder())),
    methodsOf: methodMatcher(ROUTES),
    upstream: new Upstream(place.serviceSocket),
    socketClient: Deno.createHttpClient({ proxy: { transport: "unix", path: place.serviceSocket } }),
    version: VERSION,
    log,
  });
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, () => resolve());
  });
  // An unhandled rejection of one request must not end the others.
  outliveRejections();
  await dropPermissions();
  const server = listen(port ?? DEFAULT_PORT, handler, port === undefined);
  await writeGatewayFiles(place, token, server.addr.port);
  say(`sbx-gateway ${VERSION}: http://127.0.0.1:${server.addr.port}`);
  await Promise.race([stopped, new Promise<void>((resolve) => void onRemoval(place.dir, resolve))]);
  removeGatewayFiles(place);
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
    throw new SbxError("cli.usage", `unknown arguments: ${args.join(" ")}`, {
      hint: "sbx-gateway [--port N]",
    });
  }
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65535) {
    throw new SbxError("cli.usage", `invalid port "${text}"`, { hint: "a port is a number from 0 to 65535" });
  }
  return port;
}
