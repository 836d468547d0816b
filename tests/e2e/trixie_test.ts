/**
 * Debian trixie, in a root file system of its own: QEMU 10 and a virtiofsd that is a program of its own. A machine that
 * boots with one QEMU may die with another: ten starts, one after another. `make test-hosts` tries more, on more suites.
 */
import { assertEquals } from "@std/assert";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { reportOf } from "../hosts/host.ts";

const STARTS = 5;

// Only root can enter another root file system.
Deno.test({
  name: "VMs boot in Debian trixie, and start from a template",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const { cold, template } = await reportOf({ suite: "trixie", user: "root" }, STARTS);
    assertEquals([...cold.failures, ...template.failures], []);
    assertEquals([cold.ok, template.ok], [STARTS, STARTS]);
  },
});

/** Time limit in `ms`. */
const LIMIT_MS = 600_000;

const SUSPEND = `
scripts/deps.sh
export SBX_HOME=$(mktemp -d) SBX_TEST_ASSETS_DIR SBX_REQUIRE_SUSPEND=1
SBX_TEST_ASSETS_DIR=$SBX_HOME/assets
bin/sbx update --assets --manifest file:///src/main/.cache/image/manifest.json >/dev/null
TEST=tests/e2e/suspend_test.ts scripts/test.sh
`;

Deno.test({
  name: "a VM is suspended in Debian trixie and comes back",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const args = ["trixie", "env", "DENO_DIR=/src/main/.deno/cache", "bash", "-euc", SUSPEND];
    const { code, stdout, stderr } = await runChild(fromRoot("scripts/root.sh"), { args }, LIMIT_MS);
    const said = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("");
    assertEquals([code, said.includes("1 passed, 0 failed")], [0, true], said);
  },
});
