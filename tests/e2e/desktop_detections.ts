/** Detections in the desktop: hunted with in a record, put in force, and removed. */
import { assertEquals } from "@std/assert";
import { type DesktopWorld, MARKUP } from "./desktop_world.ts";

const RULE = {
  id: "asked-site",
  source_id: "asked-site",
  title: MARKUP,
  event_family: "http",
  condition: "selection",
  matchers: [{
    field_path: "http.request.host",
    operator: "equals_any",
    values: ["asked.example"],
    sigma_field: "host",
  }],
  severity: "low",
  confidence: "high",
  tags: [],
};

export async function detectionSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  const source = page.getByLabel("The detection, as Sigma YAML or JSON");

  await t.step("a detection finds what happened, is put in force and removed", async () => {
    await desktop.open("detections");
    await source.fill("{");
    await page.getByRole("button", { name: "Hunt", exact: true }).click();
    await page.getByText("The detection is not JSON.").waitFor();
    await source.fill(JSON.stringify(RULE));
    await page.getByRole("button", { name: "Hunt", exact: true }).click();
    await page.getByRole("row", { name: /http\.request\.host = "asked\.example"/ }).first().waitFor();
    assertEquals(await desktop.violations(), []);
    await page.getByRole("button", { name: "Test on every event" }).click();
    await page.getByText(/^[1-9][\d,]* events tested, [1-9]\d* match(es)?$/).waitFor();
    await page.getByRole("row", { name: /http\.request\.host = "asked\.example"/ }).first().waitFor();
    await page.getByRole("button", { name: "Turn on", exact: true }).click();
    const more = page.getByRole("button", { name: /^More for .*asked-site/ });
    await more.waitFor();
    const remove = async () => {
      await more.click();
      await page.getByRole("menuitem", { name: /^Remove .*asked-site/ }).click();
    };
    const ids = async () =>
      (await sbx.api("GET", "/detection")).body.rules.map(({ scope }: { scope: string }) => scope)
        .filter((scope: string) => scope === "runtime").length;
    assertEquals(await ids(), 1);
    const turned = page.getByRole("button", { name: /^Turn (on|off) .*asked-site/ });
    await turned.click();
    await page.getByRole("button", { name: /^Turn on .*asked-site/ }).waitFor();
    await turned.click();
    await page.getByRole("button", { name: /^Turn off .*asked-site/ }).waitFor();
    await remove();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    assertEquals(await ids(), 1);
    await remove();
    await page.getByRole("dialog").getByRole("button", { name: /^Remove/ }).click();
    await more.waitFor({ state: "detached" });
    assertEquals(await ids(), 0);
  });
}
