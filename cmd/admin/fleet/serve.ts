import { type Command, usageError } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { serveFleet } from "../../../lib/fleet/receive/mod.ts";
import { PROGRAM } from "../program.ts";

const PORT_MAX = 65_535;
const LOOPBACK = "127.0.0.1";

/** `sbx-admin fleet serve`: the receiver, until it is interrupted. */
export const fleetServe: Command = {
  name: "fleet serve",
  usage: "DIR [--host ADDRESS] [--port N] [--cert FILE --key FILE]",
  summary: "receive, verify and keep segments of enrolled machines",
  notes: [
    "Several may serve one folder. Without --cert it serves on loopback only, behind a proxy that has TLS.",
  ],
  options: [
    { name: "host", value: "ADDRESS", about: `address to listen on; default ${LOOPBACK}` },
    { name: "port", value: "N", about: "port; default any" },
    { name: "cert", value: "FILE", about: "certificate chain in PEM" },
    { name: "key", value: "FILE", about: "its private key in PEM" },
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet serve /srv/fleet --port 8443 --host 0.0.0.0 --cert fleet.pem --key fleet.key"],
  async run(args) {
    const [cert, key] = [args.text("cert"), args.text("key")];
    const hostname = args.text("host") ?? LOOPBACK;
    if ((cert === undefined) !== (key === undefined)) {
      throw usageError({ program: PROGRAM, command: fleetServe }, "--cert and --key belong together");
    }
    if (cert === undefined && !/^(127\.|::1$|localhost$)/.test(hostname)) {
      throw usageError(
        { program: PROGRAM, command: fleetServe },
        `--host ${hostname} needs --cert and --key`,
      );
    }
    const tls = cert === undefined ? undefined : { cert: await read(cert), key: await read(key!) };
    await Deno.mkdir(args.words[0], { recursive: true, mode: 0o700 });
    const server = serveFleet({
      dir: args.words[0],
      hostname,
      port: args.number("port", { min: 0, max: PORT_MAX }) ?? 0,
      ...(tls && { tls }),
    });
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      Deno.addSignalListener(signal, () => server.shutdown());
    }
    const { port } = server.addr;
    await print(`${tls ? "https" : "http"}://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`);
    await server.finished;
    return 0;
  },
};

async function read(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    throw new SbxError("fleet.file.invalid", `${path} cannot be read`, { cause, hint: "check the path" });
  }
}
