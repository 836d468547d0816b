/** Credentials in the desktop: a secret goes in, and never comes out. */
import { assertEquals } from "@std/assert";
import type { DesktopWorld } from "./desktop_world.ts";
import type { CredentialList } from "../../lib/client/api/mod.ts";

/** Markup that is short enough for a label that does not look like a key. */
const LABEL = `<img src=x onerror=ran=1>`;
/** Of the length and form of a real one. */
const SECRET = `sk-ant-api03-${"d".repeat(93)}AA`;

export async function credentialSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  const row = page.getByRole("row", { name: /onerror/ });

  await t.step("a secret is posted once, and the page keeps nothing of it", async () => {
    await desktop.open("credentials");
    await page.getByRole("button", { name: "Add a credential" }).click();
    await page.getByRole("button", { name: /^Anthropic/ }).click();
    await page.getByLabel("Secret", { exact: true }).fill("short");
    await page.getByLabel("Label (optional)").fill(LABEL);
    assertEquals(await desktop.violations(), []);
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.locator("#secret-problem .error").waitFor();
    assertEquals(await page.getByLabel("Secret", { exact: true }).inputValue(), "");
    await page.getByLabel("Secret", { exact: true }).fill(SECRET);
    await page.keyboard.press("Enter");
    await row.waitFor();
    const kept = await page.evaluate(
      "document.documentElement.outerHTML + location + JSON.stringify({ ...localStorage, ...sessionStorage })",
    );
    assertEquals(String(kept).includes(SECRET), false);
    const { credentials }: CredentialList = (await sbx.api("GET", "/credentials/list")).body;
    assertEquals(credentials.map(({ label, decoy }) => [label, decoy]), [[LABEL, false]]);
  });

  await t.step(
    "a decoy is made up, and a credential is revoked after the page says what that means",
    async () => {
      await page.getByRole("button", { name: "Add a credential" }).click();
      // After a frame it would take the focus, and the letters, from the label that is typed next.
      const anthropic = page.getByRole("button", { name: /^Anthropic/ });
      assertEquals(await desktop.focuses(anthropic, "dialog [type=password]"), true);
      await page.getByLabel("Label (optional)").fill("bait");
      await page.getByLabel(/^A decoy/).check();
      await page.getByRole("button", { name: "Add", exact: true }).click();
      await page.getByRole("row", { name: /bait/ }).getByText("decoy").waitFor();
      const more = page.getByRole("button", { name: "More for bait" });
      assertEquals(await desktop.focuses(more, "[role=menuitem]"), true);
      await page.getByRole("menuitem", { name: "Uses" }).click();
      await page.getByText("It was never used.").waitFor();
      assertEquals(await desktop.violations(), []);
      await row.getByRole("button", { name: /^More for/ }).click();
      await page.getByRole("menuitem", { name: "Revoke" }).click();
      await page.getByText("This cannot be undone").waitFor();
      await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
      await row.waitFor({ state: "detached" });
      await page.getByRole("switch", { name: "Show 1 revoked" }).check();
      await row.getByText("revoked", { exact: true }).waitFor();
    },
  );
}
