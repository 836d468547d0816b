/** Every page by the keyboard alone: each control is reached, is seen to be, and is left again. */
import { assertEquals } from "@std/assert";
import { PAGES } from "./desktop_look.ts";
import type { DesktopWorld } from "./desktop_world.ts";

/** Controls of a page that is walked through, at most. */
const STEPS_MAX = 400;

/** Marks the element in focus. @returns what is wrong with it, `over` for the end of the page */
const VISIT = `(() => {
  const element = document.activeElement;
  // Behind the last one comes the window, and then the first.
  if (element === document.body) return "";
  if (element.dataset.visited) return "over";
  element.dataset.visited = "yes";
  const { outlineStyle, boxShadow, borderColor } = getComputedStyle(element);
  const isSeen = outlineStyle !== "none" || boxShadow !== "none" || element.closest(".cm-editor, .xterm");
  return isSeen ? "" : "no focus is seen: " + element.outerHTML.slice(0, 100);
})()`;
/**
 * Controls that were not reached: one of a group of radio buttons is enough, and a
 * closed group has none in sight.
 */
const MISSED =
  `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((element) => !element.disabled && element.checkVisibility() && element.tabIndex >= 0)
  .filter((element) => !element.dataset.visited).map((element) => element.outerHTML.slice(0, 100))`;

export async function keyboardSteps(t: Deno.TestContext, { desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  await t.step("each page is walked through by the keyboard alone", async () => {
    for (const words of PAGES) {
      await page.evaluate("document.activeElement.blur()");
      await desktop.open(...words);
      await desktop.settled();
      await page.evaluate(
        `document.querySelectorAll("[data-visited]").forEach((each) => delete each.dataset.visited);
        document.activeElement.blur(); getSelection().setPosition(document.body, 0)`,
      );
      const problems: string[] = [];
      for (let step = 0; step < STEPS_MAX; step++) {
        await page.keyboard.press("Tab");
        const found = await page.evaluate(VISIT) as string;
        if (found === "over") break;
        if (found) problems.push(found);
        // A terminal keeps Tab for its program, until it is left.
        if (await page.evaluate("document.activeElement.closest('.xterm') !== null")) {
          await page.keyboard.press("Control+]");
          assertEquals(await page.evaluate("document.activeElement.type"), "search");
          break;
        }
      }
      if (words.at(-1) !== "terminal") problems.push(...await page.evaluate(MISSED) as string[]);
      assertEquals(problems, [], words.join("/"));
    }
  });
}
