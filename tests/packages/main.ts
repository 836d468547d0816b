/**
 * `make test-packages`: packages of two versions, made here, through their whole life in clean Debians, and
 * what proves them. As root: it enters other root file systems.
 */
import { join } from "node:path";
import { requireArm64Layout } from "./arm64.ts";
import { buildPackages, OLD, requireEqualBuilds } from "./build.ts";
import { requireSigned } from "./signature.ts";
import { liveIn, serve } from "./world.ts";

const suites = Deno.args;
const dir = await Deno.makeTempDir({ prefix: "sbx-packages-" });
try {
  await requireArm64Layout(join(dir, "arm64"));
  const packages = await buildPackages(dir);
  await requireEqualBuilds(packages[OLD], join(dir, "again"));
  await requireSigned(join(dir, "apt/dists/stable"), join(dir, "apt/sbx-archive-keyring.pgp"));
  for (const suite of suites) {
    console.log(`── ${suite}`);
    await using server = serve(dir);
    await liveIn(suite, dir, packages, server);
    server.requireByHash();
  }
  console.log("packages: all passed");
} finally {
  await Deno.remove(dir, { recursive: true });
}
