/** A new home: what is done, what is next, and steps that are done elsewhere meanwhile. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { DesktopWorld } from "./desktop_world.ts";
import { shoot } from "../helper/browser.ts";

export async function firstSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  await t.step("the first page of a new home says what is next, and goes on by itself", async () => {
    await page.getByText("2 of 4 done").waitFor();
    const states = () =>
      page.evaluate(`[...document.querySelectorAll(".first-steps li")].map(({ className }) => className)`);
    assertEquals(await states(), ["done", "done", "next", "later"]);
    await page.getByText("sbx credentials add anthropic").waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "first-steps");
    // What the service records when a credential is added.
    await Deno.writeTextFile(
      join(sbx.home, "setup-state.json"),
      JSON.stringify({ schema: "sbx.setup.v1", completed_steps: ["assets", "providers"] }),
    );
    await page.getByText("3 of 4 done").waitFor();
    assertEquals(await states(), ["done", "done", "done", "next"]);
    const here = page.getByRole("link", { name: "Or start one here, without a terminal" });
    assertEquals(await here.getAttribute("href"), "#/agents");
  });
}
