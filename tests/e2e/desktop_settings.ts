/** Settings, drawn from what the service says alone. */
import { assertEquals } from "@std/assert";
import { eventually } from "../helper/sbx.ts";
import { shoot } from "../helper/browser.ts";
import type { DesktopWorld } from "./desktop_world.ts";

export async function settingsSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  const control = (id: string) => page.locator(`[data-id="${id}"] :is(input, select)`).first();
  const valueOf = async (id: string) =>
    (await (await sbx.fetch(`/settings/explain/${id}`)).json()).effective_value;

  await t.step("a toggle is sent at once, everything else as one batch", async () => {
    await desktop.open("settings");
    await control("app.notifications").click();
    await page.getByText("Saved.").waitFor();
    assertEquals(await valueOf("app.notifications"), false);
    await control("vm.resources.cpu_count").fill("3");
    await control("appearance.theme").selectOption("dark");
    assertEquals(await valueOf("appearance.theme"), "system");
    await page.getByRole("button", { name: "Save 2 changes" }).click();
    await page.getByRole("button", { name: /^Save/ }).waitFor({ state: "detached" });
    assertEquals([await valueOf("vm.resources.cpu_count"), await valueOf("appearance.theme")], [3, "dark"]);
    assertEquals(await page.evaluate("document.documentElement.dataset.theme"), "dark");
  });

  await t.step("a batch with a wrong value is refused as a whole, with its reason", async () => {
    const email = "repository.git.identity.author_email";
    await control(email).fill("nobody");
    await control("appearance.theme").selectOption("light");
    await page.getByRole("button", { name: "Save 2 changes" }).click();
    await page.locator(`[data-id="${email}"] .problems`).waitFor();
    await page.getByText("Nothing was saved: one setting needs another value.").waitFor();
    assertEquals([await valueOf(email), await valueOf("appearance.theme")], ["", "dark"]);
    await page.getByRole("button", { name: "Discard" }).click();
  });

  await t.step(
    "a setting that corp locks is shown as locked, and refused by the service in any case",
    async () => {
      const id = "vm.resources.scratch_disk_size_gb";
      assertEquals(await control(id).isDisabled(), true);
      await page.locator(`[data-id="${id}"]`).getByText("Locked by your organization").waitFor();
      const { status, body } = await sbx.api("PATCH", "/settings/edit", { [id]: 8 });
      assertEquals([status, body.code], [423, "settings.corp_locked"]);
    },
  );

  await t.step(
    "a setting is explained: its layers with file and line, and which one is in force",
    async () => {
      const row = page.locator('[data-id="vm.resources.cpu_count"]');
      await row.getByRole("button", { name: /^Explain/ }).click();
      const table = row.getByRole("table");
      await table.getByRole("row", { name: /^You active 3 .*settings\.toml:\d+$/ }).waitFor();
      await table.getByRole("row", { name: /^Default 2/ }).waitFor();
      assertEquals(await desktop.violations(), []);
      const locked = page.locator('[data-id="vm.resources.scratch_disk_size_gb"]');
      await locked.getByRole("button", { name: /^Explain/ }).click();
      await locked.locator(`[id="${await locked.getAttribute("data-id")}-why"]`)
        .getByText(/^Locked by your organization: .*corp\.toml/).waitFor();
      await shoot(desktop, "explain");
    },
  );

  await t.step("a change of another client is shown", async () => {
    await sbx.ok("settings", "set", "vm.resources.cpu_count", "1");
    const value = () => control("vm.resources.cpu_count").inputValue();
    await eventually("the page shows it", async () => await value() === "1");
    await page.getByRole("row", { name: /^You active 1 / }).waitFor();
  });
}
