/** Every page of the desktop in both themes: readable at 1440 and 320 px (400 % of 1280), without a violation. */
import { assertEquals } from "@std/assert";
import { shoot } from "../helper/browser.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { http } from "../helper/session_gate.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

const PAGES = [
  ["sessions"],
  ["inbox"],
  ["rules"],
  ["detections"],
  ["mcp"],
  ["credentials"],
  ["settings"],
  ["status"],
  ...["timeline", "programs", "requests", "calls", "changes", "files", "ports", "findings", "logs"].map((
    view,
  ) => [
    "vm",
    "dev",
    view,
  ]),
];

Deno.test("every page of the desktop, wide and narrow", options, async (t) => {
  await using home = await DesktopHome.make();
  const { desktop } = home;
  const { page } = desktop;
  for (const host of ["one.example", "two.example"]) await home.gate.decide(http(host));
  for (const words of PAGES) {
    await t.step(words.join("/"), async () => {
      await desktop.open(...words);
      await page.locator("main h1").first().waitFor();
      await desktop.settled();
      for (const [width, height] of [[1440, 900], [320, 640]]) {
        await page.setViewportSize({ width, height });
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme });
          assertEquals(await desktop.violations(), [], `${width} px, ${colorScheme}`);
        }
        const wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        assertEquals(Math.max(0, Number(wider)), 0, `it scrolls sideways at ${width} px`);
      }
      await shoot(desktop, words.join("_"));
    });
  }
  assertEquals(desktop.problems, []);
});
