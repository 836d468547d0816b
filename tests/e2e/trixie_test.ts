/**
 * Debian trixie, in a root file system of its own: QEMU 10 and a virtiofsd that is a program of its own. A machine that
 * boots with one QEMU may die with another: five boots, one after another.
 */
import { assertEquals } from "@std/assert";
import { fromRoot } from "../helper/repo.ts";
import { runChild } from "../helper/child.ts";

/** Time limit in `ms`: the first run downloads a file system and its packages. */
const LIMIT_MS = 600_000;

const BOOTS = `
scripts/deps.sh
export SBX_HOME=$(mktemp -d) SBX_GATEWAY_PORT=0
bin/sbx update --assets --manifest file:///src/main/.cache/image/manifest.json >/dev/null
trap 'bin/sbx stop >/dev/null' EXIT
for i in 1 2 3 4 5; do bin/sbx run -- sh -c "cat /proc/version >v; echo boot $i"; done
`;

// Only root can enter another root file system.
Deno.test({
  name: "five VMs boot in Debian trixie",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const args = ["bash", "-euc", BOOTS];
    const { code, stdout, stderr } = await runChild(fromRoot("scripts/trixie.sh"), { args }, LIMIT_MS);
    const [said, log] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    const boots = said.split("\n").filter((line) => line.startsWith("boot "));
    assertEquals([code, boots], [0, [1, 2, 3, 4, 5].map((i) => `boot ${i}`)], said + log);
  },
});
