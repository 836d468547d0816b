import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { publishTree, serveTree } from "../../../lib/publish/mod.ts";
import { KEYS_OPTION, publisherKeys, verifying, withProgress } from "./options.ts";

/** `sbx-admin release publish`: a workspace into a folder that a web server serves. */
export const releasePublish: Command = {
  name: "release publish",
  usage: "DIR OUT [--keys DIR] [--json]",
  summary: "verify a workspace and copy new files into a folder that any web server can serve",
  notes: ["Published files never change, except for the index and assets/CHANNEL/manifest.json."],
  options: [KEYS_OPTION, JSON_OPTION],
  words: { min: 2, max: 2 },
  examples: ["sbx-admin release publish releases /srv/www/sbx"],
  async run(args) {
    const [dir, out] = args.words;
    const keys = verifying(await publisherKeys(args));
    const published = await withProgress(["hash"], (progress) => publishTree(dir, out, keys, progress));
    if (args.has("json")) await printJson(published);
    else {
      for (const name of published.added) await print(`new       ${name}`);
      for (const name of published.replaced) await print(`replaced  ${name}`);
      await print(`${out}: index of ${published.generated_at}, ${count(published.added.length, "new file")}`);
    }
    return 0;
  },
};

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
