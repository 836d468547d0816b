import type { Command } from "../../../lib/base/args/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { serveTree } from "../../../lib/publish/mod.ts";

const PORT_MAX = 65_535;

/** `sbx-admin release serve`: a published tree on loopback, until it is interrupted. */
export const releaseServe: Command = {
  name: "release serve",
  usage: "DIR [--port N]",
  summary: "serve a published tree on loopback, for trying it",
  options: [{ name: "port", value: "N", about: "port; default any" }],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin release serve /srv/www/sbx --port 8080"],
  async run(args) {
    const server = await serveTree(args.words[0], args.number("port", { min: 0, max: PORT_MAX }) ?? 0);
    for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => server.close());
    await print(server.url);
    await server.finished;
    return 0;
  },
};
