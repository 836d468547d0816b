/** A page of the desktop as people have it: both themes, wide and narrow. */
import { assertEquals } from "@std/assert";
import { type DesktopBrowser, shoot, SHOTS } from "./browser.ts";

/**
 * Clicks through a journey in both themes at 1440 and 390 px; where it ends the page has no violation.
 *
 * @param journey calls `look` where a person stops on its way: no violation there, and a picture
 */
export async function eachView(
  desktop: DesktopBrowser,
  journey: (at: number, look: (name: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const { page } = desktop;
  for (const [at, [width, colorScheme]] of VIEWS.entries()) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    await journey(at, async (name) => {
      assertEquals(await desktop.violations(), [], `${name}: ${width} px, ${colorScheme}`);
      if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}_${colorScheme}_${width}.png` });
    });
    assertEquals(await desktop.violations(), [], `${width} px, ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1200, height: 800 });
}

const VIEWS = [[1440, "light"], [1440, "dark"], [390, "light"], [390, "dark"]] as const;

/**
 * Checks the page as it is in both themes at 1440 and 390 px: no violation, nothing wider than the window.
 */
export async function checkViews(desktop: DesktopBrowser, name: string): Promise<void> {
  const { page } = desktop;
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      assertEquals(await desktop.violations(), [], `${name}: ${width} px, ${colorScheme}`);
    }
    const wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
    assertEquals(Math.max(0, Number(wider)), 0, `${name} scrolls sideways at ${width} px`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1200, height: 800 });
  await shoot(desktop, name);
}
