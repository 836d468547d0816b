import { type Command, JSON_OPTION, usageError } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { PROGRAM } from "../program.ts";

/** `sbx-admin fleet engines`: databases that answer questions, beside sbx. */
export const fleetEngines: Command = {
  name: "fleet engines",
  usage: "[duckdb|chdb]... [--registry URL] [--json]",
  summary:
    "fetch the databases that tables, hunts and questions need: DuckDB, or ClickHouse in a process (chdb)",
  notes: [
    "Each file is checked by the hash that this sbx knows, and no script of a package runs. DuckDB takes 70 MB; chdb takes 540 MB, and is for Linux on x86_64 alone.",
  ],
  options: [{ name: "registry", value: "URL", about: "mirror of the npm registry" }, JSON_OPTION],
  words: { min: 0, max: 2 },
  examples: ["sbx-admin fleet engines", "sbx-admin fleet engines chdb --registry https://npm.example.com"],
  async run(args) {
    const [{ engineFiles, enginesFolder, fetchEngine }, { useNetworkOf }] = await Promise.all([
      import("../../../lib/fleet/fetch/mod.ts"),
      import("../../../lib/home/mod.ts"),
    ]);
    const names = args.words.length > 0 ? args.words : ["duckdb"];
    const packages = names.flatMap((name) => {
      if (name === "duckdb" || name === "chdb") return engineFiles(name);
      throw usageError(
        { program: PROGRAM, command: fleetEngines },
        `unknown engine "${name}"`,
        "give duckdb or chdb",
      );
    });
    const registry = args.text("registry");
    if (registry !== undefined && !/^https?:$/.test(URL.parse(registry)?.protocol ?? "")) {
      throw usageError(
        { program: PROGRAM, command: fleetEngines },
        `"${registry}" is not an address of a registry`,
      );
    }
    await useNetworkOf(home());
    const folder = enginesFolder();
    const fetched = await fetchEngine(packages, folder, {
      ...(registry !== undefined && { registry }),
      onPackage: (name) => note(`fetching ${name}`),
    });
    if (args.has("json")) await printJson({ folder, packages: fetched });
    else await print(`${names.join(" and ")} in ${folder}`);
    return 0;
  },
};
