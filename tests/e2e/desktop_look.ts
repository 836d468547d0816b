/** Every page in both themes: what axe-core finds, and pictures where SBX_TEST_SHOTS names a folder. */
import { assertEquals } from "@std/assert";
import { shoot } from "../helper/browser.ts";
import type { DesktopWorld } from "./desktop_world.ts";

export const PAGES = [
  ["overview"],
  ["sessions"],
  ["costs"],
  ["inbox"],
  ["vm", "desk", "timeline"],
  ["vm", "desk", "terminal"],
  ["vm", "desk", "changes"],
  ["vm", "desk", "findings"],
  ["vm", "desk", "programs"],
  ["vm", "desk", "requests"],
  ["vm", "desk", "calls"],
  ["vm", "desk", "files"],
  ["vm", "desk", "ports"],
  ["vm", "desk", "logs"],
  ["rules"],
  ["detections"],
  ["mcp"],
  ["agents"],
  ["images"],
  ["credentials"],
  ["settings"],
  ["status"],
];
export async function lookSteps(t: Deno.TestContext, { desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  await t.step("axe finds nothing on any page, in either theme", async () => {
    // In one step: a message may leave by itself at any moment.
    await page.evaluate(`document.querySelector(".notice button")?.click()`);
    for (const words of PAGES) {
      await desktop.open(...words);
      await desktop.settled();
      await look(words.at(-1)!);
    }
  });

  await t.step("nor in the editor of a rule, as a sentence and with a mistake", async () => {
    await desktop.open("rules");
    await page.getByLabel("Profile").selectOption("mine");
    await page.getByRole("button", { name: "New rule" }).click();
    await page.getByRole("button", { name: "Add a condition" }).click();
    const condition = page.getByRole("group", { name: "Condition 1" });
    await condition.getByLabel("Comparison").selectOption("domain");
    await condition.getByLabel("Value").fill("upload.example");
    await page.getByText("No problems.").last().waitFor();
    await look("rule-sentence");
    await page.getByLabel(/^Match/).press("Control+a");
    await page.getByLabel(/^Match/).pressSequentially('http.request.hots == "asked.example"');
    await page.locator(".cm-lintRange-error").waitFor();
    await look("rule-editor");
    await page.getByRole("button", { name: "Close" }).click();
  });

  async function look(name: string): Promise<void> {
    // A theme changes colours alone.
    for (const [theme, ...rules] of [["light"], ["dark", "color-contrast"]] as const) {
      await page.evaluate(`document.documentElement.dataset.theme = "${theme}"`);
      if (name !== "terminal") assertEquals(await desktop.violations(...rules), [], `${name}, ${theme}`);
    }
    await page.evaluate("delete document.documentElement.dataset.theme");
    await shoot(desktop, `real_${name}`);
  }
}
