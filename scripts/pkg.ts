/**
 * `make pkg`: the installer for macOS, signed and notarized. Credentials are
 * checked before anything is built.
 *
 *     deno run -A scripts/pkg.ts --out DIR --application NAME --installer NAME --profile NAME [--dry-run]
 */
import { parseArgs } from "@std/cli";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readStamp } from "./build_stamp.ts";
import { macNotarize, macPreflight, macSign } from "./release/mac.ts";
import { Runner } from "./release/runner.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const args = parseArgs(Deno.args, {
  string: ["out", "application", "installer", "profile"],
  boolean: ["dry-run"],
});
const { out = "dist", application, installer, profile } = args;
if (!application || !installer || !profile) {
  console.error(
    "pkg: --application, --installer and --profile name the credentials (docs/guides/packages.md)",
  );
  Deno.exit(2);
}
if (Deno.build.os !== "darwin" && !args["dry-run"]) {
  console.error("pkg: codesign and notarytool are programs of macOS; --dry-run prints what would run there");
  Deno.exit(1);
}
const credentials = { application, installer, profile };
const runner = new Runner(args["dry-run"], console.log);
const { version } = await readStamp(ROOT);
const work = join(out, "mac");
const pkg = join(out, `sbx-${version}.pkg`);
await macPreflight(runner, credentials);
await runner.run({ argv: ["make", "--silent", "build", `OUT=${join(work, "program")}`], cwd: ROOT });
await runner.run({ argv: ["make", "--silent", "dylib"], cwd: ROOT });
const parts = { program: join(work, "program/sbx"), library: join(ROOT, "bin/libsbxvm.dylib") };
await macSign(runner, { version, ...parts, work, out: pkg }, credentials);
await macNotarize(runner, pkg, credentials);
