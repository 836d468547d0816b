/** Answers to findings in a real VM: it is kept, stands still, and no way leads out but a person's lift. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { eventually, type Sbx } from "../helper/sbx.ts";

/** A rule in the form of public ones, which answers are demanded for in {@linkcode responseOf}. */
const RULE_ID = "5c3b1d1e-6d0b-4e39-9d5e-0c2a4c1f7aff";
const SIGMA = `title: A Program That Holds The VM Back
id: ${RULE_ID}
logsource:
    category: process_creation
    product: linux
detection:
    selection:
        CommandLine|contains: hold-me
    condition: selection
level: high
`;

/** Part of a profile. @param stop `pause` or `suspend` */
export const responseOf = (stop: string) =>
  `\n[detection.response.rule]\n"${RULE_ID}" = ["snapshot", "${stop}"]\n`;

/** Steps for a VM `dev` with {@linkcode responseOf} in its profile; in the end it runs, and nothing holds it. */
export async function heldSteps(t: Deno.TestContext, sbx: Sbx, state: "Paused" | "Suspended"): Promise<void> {
  const info = async () => JSON.parse(await sbx.ok("info", "dev", "--json"));
  const refused = async (...words: string[]) => {
    const { code, stderr } = await sbx.cli(...words);
    assert(code !== 0, words.join(" "));
    assertStringIncludes(stderr, "sbx lift dev", words.join(" "));
  };
  const rule = join(sbx.home, "held.yml");
  await Deno.writeTextFile(rule, SIGMA);
  await sbx.ok("detection", "add", rule);

  let ran!: ReturnType<typeof sbx.cli>;
  await t.step(`a finding keeps the files of the VM, and it is ${state}`, async () => {
    await sbx.ok("exec", "dev", "-c", "echo evidence > /workspace/evidence");
    // Its client waits for as long as the machine is there.
    ran = sbx.cli("exec", "dev", "-c", "sleep 600; : hold-me");
    await eventually(`it is ${state}`, async () => (await info()).status === state);
    const { response, available_actions } = await info();
    const done = response.actions.map(({ action }: { action: string }) => action);
    assertEquals(done.toSorted(), ["block", state === "Paused" ? "pause" : "suspend", "snapshot"].toSorted());
    const [note, ...others] = response.notes;
    assertEquals(others, [], "every answer was possible");
    const { snapshots } = JSON.parse(await sbx.ok("snapshots", "list", "dev", "--json"));
    assertStringIncludes(
      note,
      snapshots.find(({ label }: { label: string }) => label === "after a finding").id,
    );
    for (const action of ["resume", "start", "fork", "exec"]) {
      assert(!available_actions.includes(action), action);
    }
  });

  await t.step(
    "nothing but a lift lets it go on, also after a killed process and a new service",
    async () => {
      await refused("resume", "dev");
      await refused("fork", "dev", "copy");
      await refused("exec", "dev", "--", "true");
      const { pid } = await info();
      if (state === "Paused") Deno.kill(pid, "SIGKILL");
      await sbx.ok("stop");
      await sbx.ok("start");
      if (state === "Paused") assertStringIncludes((await ran).stderr, "sbx lift dev");
      await eventually("it has ended", async () => (await info()).status !== "Paused");
      await refused("start", "dev");
      await refused("fork", "dev", "copy");
      if (state === "Paused") {
        const [{ id }] = JSON.parse(await sbx.ok("snapshots", "list", "dev", "--json")).snapshots;
        await sbx.ok("snapshots", "restore", "dev", id);
        await refused("start", "dev");
      }
      await sbx.ok("delete", "--force", "dev");
      await sbx.ok("restore", "dev");
      await refused("start", "dev");
      await sbx.ok("lift", "dev");
      await sbx.ok("start", "dev");
      assertEquals(await sbx.ok("exec", "dev", "-c", "cat /workspace/evidence"), "evidence\n");
      assertEquals((await info()).response, undefined);
    },
  );
  await sbx.ok("detection", "remove", "sigma.held");
}
