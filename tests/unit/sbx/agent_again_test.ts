/** An agent's VM that is there already, and an agent in another profile than its own. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { requireFitFor } from "../../../cmd/sbx/start/agent_again.ts";
import { agentIn, agentProfile } from "../../../cmd/sbx/start/agent_start.ts";
import { Arguments } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

Deno.test("options of a new VM are refused for one that is there, with the way to change it", () => {
  const hintOf = (option: string) => {
    const args = new Arguments(["claude"], new Map([[option, ["2"]], ["continue", []]]));
    const error = assertThrows(() => requireFitFor({ name: "claude-shop" }, args), SbxError);
    assertEquals(error.code, "vm.exists");
    return error.hint;
  };
  assertEquals(
    hintOf("cpus"),
    "--new makes another one; sbx stop claude-shop, then sbx set claude-shop --cpus N changes this one",
  );
  assertEquals(
    hintOf("credential"),
    "--new makes another one; sbx set claude-shop --credential PROVIDER=LABEL changes this one",
  );
  for (const option of ["env", "live"]) assertEquals(hintOf(option), "--new makes another one");
  requireFitFor({ name: "claude-shop" }, new Arguments(["claude"], new Map([["prompt", ["work"]]])));
});

Deno.test("an agent starts in another profile that has it, and in no profile without it", async () => {
  const opencode = await agentProfile("opencode");
  assertEquals(await agentIn(opencode, undefined), opencode);
  assertEquals((await agentIn(opencode, "opencode-local")).id, "opencode-local");
  for (const [id, has] of [["code", "no agent"], ["codex", "another agent (codex)"]]) {
    const error = await assertRejects(() => agentIn(opencode, id), SbxError);
    assertEquals([error.code, error.message], [
      "agent.other_profile",
      `the profile "${id}" has ${has}, not opencode`,
    ]);
  }
  await assertRejects(() => agentIn(opencode, "nope"), SbxError, "there is no profile");
});
