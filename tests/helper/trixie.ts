/** Tests that run again in Debian trixie, whose QEMU writes VMs down. */
import { assertEquals } from "@std/assert";
import { runChild } from "./child.ts";
import { fromRoot } from "./repo.ts";

const RUN = `
RUNS_ONLY=1 scripts/deps.sh
export SBX_HOME=$(mktemp -d) SBX_TEST_ASSETS_DIR SBX_REQUIRE_SUSPEND=1
trap 'rm -rf "$SBX_HOME"' EXIT
SBX_TEST_ASSETS_DIR=$SBX_HOME/assets
bin/sbx update --assets --manifest file:///src/main/.cache/image/manifest.json >/dev/null
TEST=$1 scripts/test.sh
`;

/**
 * Runs a file of tests there, all of which must pass. Only root can enter another root file system.
 * @returns its output
 */
export async function passesInTrixie(
  path: string,
  limitMs: number,
  env: Record<string, string> = {},
): Promise<string> {
  const variables = Object.entries({ DENO_DIR: "/src/main/.deno/cache", ...env }).map(([name, value]) =>
    `${name}=${value}`
  );
  const args = ["trixie", "env", ...variables, "bash", "-euc", RUN, "run", path];
  const { code, stdout, stderr } = await runChild(fromRoot("scripts/root.sh"), { args }, limitMs);
  const said = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("");
  assertEquals([code, /^[1-9]\d* passed, 0 failed$/m.test(said)], [0, true], said);
  return said;
}
