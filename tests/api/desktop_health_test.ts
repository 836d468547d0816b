/** Health on the desktop page: each part's state, what to do about it, and the report for others. */
import { assertEquals } from "@std/assert";
import { DesktopHome } from "../helper/desktop_home.ts";
import { checkViews } from "../helper/desktop_views.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test("health on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make();
  const { desktop } = home;
  const { page } = desktop;
  await Deno.chmod(home.home.dir, 0o775);
  const machine = page.getByRole("region", { name: "This machine" });
  const rows = machine.getByRole("listitem");
  const permissions = rows.filter({ hasText: "open to others" });

  await t.step("a failed check comes first, with its command and a button that mends it", async () => {
    await desktop.open("status");
    await permissions.waitFor();
    assertEquals(await page.title(), "Health – sbx");
    assertEquals(await rows.first().innerText().then((text) => text.includes("open to others")), true);
    await permissions.getByText(/^chmod 700 /).waitFor();
    await permissions.getByRole("button", { name: "Copy" }).waitFor();
    await page.getByRole("status").filter({ hasText: /problems?/ }).first().waitFor();
    await checkViews(desktop, "health_problem");
    await permissions.getByRole("button", { name: /^Fix/ }).click();
    await permissions.waitFor({ state: "detached" });
    assertEquals((await Deno.stat(home.home.dir)).mode! & 0o022, 0);
  });

  await t.step("remarks alone are a choice that the address keeps", async () => {
    await machine.getByRole("switch", { name: "Only remarks and problems" }).check();
    await page.waitForURL(/#\/status\?show=attention$/);
    await page.reload();
    await rows.first().waitFor();
    await desktop.settled();
    assertEquals(await machine.locator("li.ok").count(), 0);
    await machine.getByRole("switch").uncheck();
    await machine.locator("li.ok").first().waitFor();
  });

  await t.step("a missing image has its command, and leads to the page that builds it", async () => {
    const image = rows.filter({ hasText: "no VM assets are installed" });
    await image.getByText("sbx image build code", { exact: true }).waitFor();
    // The service has the same issue: it is listed once.
    assertEquals(await page.getByRole("region", { name: "Problems" }).getByText("no VM assets").count(), 0);
    assertEquals(await image.getByRole("link").getAttribute("href"), "#/images");
  });

  await t.step("the debug report is a file, and says that it is redacted", async () => {
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Debug report" }).click(),
    ]);
    assertEquals(/^sbx-debug-\d{4}-\d\d-\d\d\.json$/.test(download.suggestedFilename()), true);
    const report = JSON.parse(await Deno.readTextFile((await download.path())!));
    assertEquals([report.schema, report.redacted], ["sbx.debug.v2", true]);
  });

  await t.step("Check again makes the checks again", async () => {
    await Deno.chmod(home.home.dir, 0o775);
    await page.getByRole("button", { name: "Check again" }).click();
    await permissions.waitFor();
  });
  assertEquals(desktop.problems, []);
});
