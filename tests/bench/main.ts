/**
 * Runs every benchmark of this folder, one after another: `make bench`. Each prints one
 * JSON object on a line of its own.
 */
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { fromRoot } from "../helper/repo.ts";

const self = fileURLToPath(import.meta.url);
const files = await Array.fromAsync(Deno.readDir(dirname(self)), ({ name }) => name);
const benches = files.filter((name) => name.endsWith(".ts") && name !== basename(self)).sort();
// Names choose some of them: `deno task bench run exec`.
const chosen = benches.filter((name) => Deno.args.length === 0 || Deno.args.includes(basename(name, ".ts")));

let failed = chosen.length === 0;
for (const name of chosen) {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--config", fromRoot("deno.json"), join(dirname(self), name)],
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  if (success) continue;
  failed = true;
  console.log(JSON.stringify({ name: basename(name, ".ts"), error: "it failed; stderr says why" }));
}
Deno.exit(failed ? 1 : 0);
