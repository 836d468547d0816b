/**
 * Settings and logs on the desktop page: problems beside their fields, locks with
 * their place, logs that follow.
 */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { shoot } from "../helper/browser.ts";
import { checkViews } from "../helper/desktop_views.ts";
import type { DesktopHome } from "../helper/desktop_home.ts";

/** A setting that the organization of the home locks. */
export const LOCKED = "vm.resources.scratch_disk_size_gb";
export const CORP = `[settings."${LOCKED}"]\nvalue = 2\nreason = "Disks are backed up up to 2 GiB."\n`;

export async function settingsSteps(t: Deno.TestContext, { desktop, paths }: DesktopHome): Promise<void> {
  const { page } = desktop;
  const row = (id: string) => page.locator(`[data-id="${id}"]`);
  const control = (id: string) => row(id).locator(":is(input, select)").first();
  const email = "repository.git.identity.author_email";

  await t.step("a refused value says so beside its field, and is said to be right once it is", async () => {
    await desktop.open("settings");
    await control(email).fill("nobody");
    await control("appearance.theme").selectOption("dark");
    await page.getByRole("button", { name: "Save 2 changes" }).click();
    const problem = row(email).getByRole("alert");
    await problem.waitFor();
    assertEquals(await control(email).getAttribute("aria-invalid"), "true");
    await page.locator(".notice").getByText("Nothing was saved: one setting needs another value.").waitFor();
    assertEquals(await page.locator(".problems").count(), 1);
    assertEquals(/[\\^$]/.test(await problem.innerText()), false, "a regular expression is no message");
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "settings_problem");
    await control(email).fill("somebody@example.com");
    await problem.waitFor({ state: "detached" });
    assertEquals(await control(email).getAttribute("aria-invalid"), null);
    await page.getByRole("button", { name: "Save 2 changes" }).click();
    await page.getByRole("button", { name: /^Save/ }).waitFor({ state: "detached" });
    await row("appearance.theme").getByRole("button", { name: /^Reset/ }).click();
  });

  await t.step("a lock says where the organization has written it", async () => {
    await row(LOCKED).getByText(/^Locked by your organization: .*corp\.toml/).waitFor();
    await row(LOCKED).getByText("Disks are backed up up to 2 GiB.").waitFor();
    assertEquals(await control(LOCKED).isDisabled(), true);
  });

  await t.step("sections and the choice of changed settings are in the address", async () => {
    const sections = page.getByRole("navigation", { name: "Sections" });
    await sections.getByRole("link", { name: "Network" }).click();
    await page.waitForURL(/#\/settings\?section=network$/);
    await page.getByRole("heading", { name: "Network" }).waitFor();
    const top = await page.evaluate("document.getElementById('section-network').getBoundingClientRect().top");
    assertEquals(Number(top) < 100, true, `${top} px`);
    await checkViews(desktop, "settings");
    await page.getByRole("switch", { name: "Only changed settings" }).check();
    await page.waitForURL(/show=changed/);
    assertEquals(await page.locator("main .setting").count(), 2);
    await row(LOCKED).waitFor();
    await checkViews(desktop, "settings_changed");
    await desktop.open("settings");
  });

  await t.step("a log follows its file, unless its reader scrolled back", async () => {
    const file = join(paths.logs, "console.log");
    const write = (from: number, to: number) =>
      Deno.writeTextFile(
        file,
        Array.from({ length: to - from }, (_, at) => `line ${from + at}\n`).join(""),
        { append: true },
      );
    await Deno.mkdir(paths.logs, { recursive: true });
    await write(0, 200);
    await desktop.open("vm", "dev", "logs");
    const log = page.locator("pre.log");
    await log.getByText("line 199").waitFor();
    const inLog = (expression: string) =>
      page.evaluate(`((log) => ${expression})(document.querySelector("pre.log"))`);
    const distance = () => inLog("log.scrollHeight - log.scrollTop - log.clientHeight");
    await write(200, 300);
    await log.getByText("line 299").waitFor();
    assertEquals(Number(await distance()) < 24, true);
    await inLog("log.scrollTop = 0");
    await page.getByRole("switch", { name: "Follow", checked: false }).waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "logs");
    await write(300, 310);
    await page.getByRole("switch", { name: "Follow" }).check();
    await log.getByText("line 309").waitFor();
    assertEquals(Number(await distance()) < 24, true);
  });
}
