/**
 * Every page of the desktop in both themes, with the work of an hour: readable at 1440 and 320 px (400 % of
 * 1280), without a violation. SBX_TEST_SHOTS names a folder for pictures of each.
 */
import { assert, assertEquals } from "@std/assert";
import { shoot } from "../helper/browser.ts";
import { makeDay, PAST } from "../helper/desktop_day.ts";
import { checkViews } from "../helper/desktop_views.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

/**
 * Tables that are wider than their place, and cells of cards without the name of
 * their column, a button or a pill.
 */
const TABLES = `(() => {
  const tables = [...document.querySelectorAll("table.cards")];
  const cells = tables.filter((table) => getComputedStyle(table).display === "block")
    .flatMap((table) => [...table.querySelectorAll("tbody td")]);
  const isNamed = (cell) => !cell.hasChildNodes() || cell.querySelector("button, label, .pill") !== null ||
    getComputedStyle(cell, "::before").content.length > 3;
  return {
    wider: tables.filter((table) => table.scrollWidth > table.clientWidth).map((table) => table.ariaLabel),
    nameless: cells.filter((cell) => !isNamed(cell)).map((cell) => cell.outerHTML),
  };
})()`;

const VIEWS = [
  ...["timeline", "programs", "requests", "calls", "findings"],
  ...["changes", "terminal", "files", "ports", "logs"],
];

const PAGES = [
  ["overview"],
  ["findings"],
  ["search?q=paste.example"],
  ["sessions"],
  ["costs"],
  ["inbox"],
  ["rules"],
  ["detections"],
  ["mcp"],
  ["agents"],
  ["images"],
  ["credentials"],
  ["settings"],
  ["status"],
  ["more"],
  ...VIEWS.map((view) => ["vm", "dev", view]),
  // Its other views are those of a VM.
  ["session", PAST, "timeline"],
];

Deno.test("every page of the desktop, wide and narrow", options, async (t) => {
  await using home = await makeDay();
  const { desktop } = home;
  const { page } = desktop;
  for (const words of PAGES) {
    await t.step(words.join("/"), async () => {
      await desktop.open(...words);
      await page.locator("main h1").first().waitFor();
      await desktop.settled();
      assertEquals(await page.locator(".notice .error").allInnerTexts(), [], "an error is said");
      for (const [width, height] of [[1440, 900], [320, 640]]) {
        await page.setViewportSize({ width, height });
        // A theme changes colours alone.
        for (const [colorScheme, ...rules] of [["light"], ["dark", "color-contrast"]] as const) {
          await page.emulateMedia({ colorScheme });
          assertEquals(await desktop.violations(...rules), [], `${width} px, ${colorScheme}`);
        }
        const wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        assertEquals(Math.max(0, Number(wider)), 0, `it scrolls sideways at ${width} px`);
        assertEquals(await page.evaluate(TABLES), { wider: [], nameless: [] }, `tables at ${width} px`);
      }
      await shoot(desktop, words.join("_").replace(PAST, "past").replaceAll(/[?=]/g, "-"));
    });
  }

  await t.step("the editor of a rule, with what it changes beside it", async () => {
    await desktop.open("rules?profile=code");
    await page.getByRole("button", { name: "New rule" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Id").fill("no-npm");
    await dialog.getByLabel("Action").selectOption("block");
    await dialog.getByRole("button", { name: "Add a condition" }).click();
    const condition = dialog.getByRole("group", { name: "Condition 1" });
    await condition.getByLabel("Comparison").selectOption("domain");
    await condition.getByLabel("Value").fill("npmjs.org");
    await dialog.getByText(/^It changes \d+ of \d+ decisions of the last 7 days in 2 sessions/).waitFor();
    await checkViews(desktop, "rule_editor");
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Discard it" }).click();
  });

  await t.step("in a narrow window the chosen view is in sight among the others", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    for (const view of ["logs", "timeline", "terminal"]) {
      await desktop.open("vm", "dev", view);
      const chosen = page.locator(`nav.views a[aria-current][href$="/${view}"]`);
      await chosen.waitFor();
      await desktop.settled();
      const { x, width } = (await chosen.boundingBox())!;
      assert(x >= 0 && x + width <= 390, `${view} begins at ${x} px and is ${width} px wide`);
    }
  });

  await page.setViewportSize({ width: 1200, height: 800 });
  await t.step("the palette leads to a view of a VM by its keys, and gives the focus back", async () => {
    await desktop.open("rules");
    await page.getByRole("button", { name: "Go to" }).focus();
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Go to or do" });
    await page.keyboard.type("dev findi");
    const found = palette.getByRole("option", { name: "dev: Findings", selected: true });
    await found.waitFor();
    assertEquals(await desktop.violations(), []);
    await found.waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/vm\/dev\/findings$/);
    await page.keyboard.press("Control+k");
    await palette.waitFor();
    await page.keyboard.press("Escape");
    await palette.waitFor({ state: "detached" });
  });

  await t.step("the palette finds rules, which open in their profile's editor, and settings", async () => {
    await page.keyboard.press("Control+k");
    await page.keyboard.type("reduced motion");
    await page.getByRole("option", { name: /motion/i }).first().waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/#\/settings\?q=appearance\.reduced_motion$/);
    await page.getByLabel(/motion/i).first().waitFor();
    assertEquals(await page.locator("main .setting").count(), 1);
  });

  await t.step("the sidebar collapses to its icons, which keep their names, and stays so", async () => {
    await page.getByRole("button", { name: "Collapse the sidebar" }).click();
    await page.reload();
    await page.getByRole("button", { name: "Expand the sidebar" }).waitFor();
    assertEquals((await page.locator("header").boundingBox())?.width, 56);
    assertEquals(await desktop.violations(), []);
    await page.getByRole("link", { name: "Credentials" }).click();
    await page.getByRole("heading", { name: "Credentials" }).waitFor();
    await page.getByRole("button", { name: "Expand the sidebar" }).click();
    assertEquals((await page.locator("header").boundingBox())?.width, 220);
  });

  await t.step("actions behind the dots of a VM: by keys, and closed by Escape", async () => {
    await desktop.open("sessions");
    const more = page.getByRole("button", { name: "More for dev" });
    await more.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem").first().waitFor();
    await page.keyboard.press("End");
    assertEquals(await page.evaluate("document.activeElement.textContent"), "Delete");
    await page.keyboard.press("Escape");
    await page.getByRole("menu").waitFor({ state: "detached" });
    assertEquals(await page.evaluate("document.activeElement.ariaLabel"), "More for dev");
  });
  assertEquals(desktop.problems, []);
});
