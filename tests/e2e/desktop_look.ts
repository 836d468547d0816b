/** Every page in both themes: what axe-core finds, and the pictures of docs/guides/desktop.md. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { DesktopBrowser } from "../helper/browser.ts";
import { fromRoot } from "../helper/repo.ts";
import type { DesktopWorld } from "./desktop_world.ts";

export const PAGES = [
  ["overview"],
  ["sessions"],
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
/** Where DESKTOP_PICTURES is set, pictures are made anew. */
const PICTURES = Deno.env.get("DESKTOP_PICTURES") ? fromRoot("docs/guides/desktop") : undefined;

/** Makes the pictures of the page as it is, in both themes, where they are wanted. */
export async function takePicture({ page }: DesktopBrowser, name: string): Promise<void> {
  if (!PICTURES) return;
  const before = await page.evaluate("document.documentElement.dataset.theme");
  for (const theme of ["light", "dark"]) {
    await page.evaluate(`document.documentElement.dataset.theme = "${theme}"`);
    await page.screenshot({ path: join(PICTURES, `${name}-${theme}.png`) });
  }
  await page.evaluate(`document.documentElement.dataset.theme = ${JSON.stringify(before)}`);
}

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
    for (const [theme, ...rules] of [["light"], ["dark", "color-contrast"]]) {
      await page.evaluate(`document.documentElement.dataset.theme = "${theme}"`);
      if (name !== "terminal") assertEquals(await desktop.violations(...rules), [], `${name}, ${theme}`);
      if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}-${theme}.png`) });
    }
  }
}
