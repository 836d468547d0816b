/** Rules in the desktop: written, tried, compared with the past, and locked where somebody else owns them. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { type DesktopWorld, MARKUP } from "./desktop_world.ts";

export async function policySteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  const dialog = page.getByRole("dialog");
  const match = dialog.getByLabel(/^Match/);
  const decided = page.getByRole("region", { name: "Try one event" }).getByRole("status");
  const rules = page.getByRole("table", { name: "Rules in the order in which they decide" });
  const changes = page.getByRole("region", { name: "Changes" });
  const compared = page.getByRole("region", { name: "Compare with the newest session" });

  await t.step("one event is tried, a rule is saved, and the same event is decided by it", async () => {
    await desktop.open("rules");
    await page.getByLabel("Profile").selectOption("mine");
    await rules.getByRole("rowheader", { name: /ask-site/ }).getByText(MARKUP).waitFor();
    await page.getByRole("button", { name: "Decide" }).click();
    await decided.getByText("allow by").waitFor();
    await page.getByRole("button", { name: "New rule" }).click();
    await dialog.getByLabel("Id").fill("no-example");
    await dialog.getByLabel("Action").selectOption("block");
    await match.pressSequentially("http.request.hos");
    await dialog.getByRole("option", { name: /^http\.request\.host/ }).click();
    assertEquals(await match.innerText(), "http.request.host");
    await dialog.locator(".cm-lintRange-error").waitFor();
    assertEquals(await desktop.violations(), []);
    await dialog.getByRole("button", { name: "Save rule" }).click();
    await dialog.getByRole("alert").waitFor();
    await match.press("Control+a");
    await page.keyboard.insertText('http.request.host == "example.com" || http.request.path == "/free"');
    await dialog.locator(".cm-lintRange-error").waitFor({ state: "detached" });
    const changed = dialog.getByRole("listitem").filter({ hasText: /asked\.example\/free/ });
    await changed.getByText(/→ block by no-example/).first().waitFor();
    await dialog.getByText("Try one event with this rule").click();
    await dialog.getByRole("button", { name: "Decide" }).click();
    await dialog.getByText("block by no-example").last().waitFor();
    assertEquals(await desktop.violations(), []);
    assertEquals(sbx.read("profiles/mine/profile.toml").includes("no-example"), false);
    await dialog.getByRole("button", { name: "Save rule" }).click();
    await rules.getByRole("rowheader", { name: "no-example" }).waitFor();
    await page.getByRole("button", { name: "Decide" }).click();
    await decided.getByText("block by no-example").waitFor();
    assertStringIncludes(sbx.read("profiles/mine/profile.toml"), "no-example");
  });

  await t.step("a new rule does not take the place of another; its change is listed", async () => {
    const file = sbx.read("profiles/mine/profile.toml");
    await page.getByRole("button", { name: "New rule" }).click();
    await dialog.getByLabel("Id").fill("no-example");
    await dialog.getByLabel("Action").selectOption("allow");
    await match.press("Control+a");
    await page.keyboard.insertText('http.request.host == "example.com"');
    await dialog.getByRole("button", { name: "Save rule" }).click();
    await dialog.getByRole("alert").getByText('has a rule "no-example" already').waitFor();
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Discard it" }).click();
    assertEquals(sbx.read("profiles/mine/profile.toml"), file);
    await changes.getByRole("row", { name: /no-example create .*no rule block/ }).waitFor();
  });

  await t.step("a new rule is compared with the last session, and deleted", async () => {
    await compared.getByRole("button", { name: "Compare" }).click();
    const row = compared.getByRole("row", { name: /asked\.example\/free/ });
    await row.getByText("block by no-example").waitFor();
    await compared.getByText(/^\d+ of \d+ decisions of desk differ/).waitFor();
    assertEquals(await desktop.violations(), []);
    await page.getByRole("button", { name: "Edit no-example" }).click();
    assertStringIncludes(await match.innerText(), "example.com");
    await dialog.getByRole("button", { name: "Delete rule" }).click();
    await dialog.getByRole("button", { name: /^Delete the rule/ }).click();
    await rules.getByRole("rowheader", { name: "no-example" }).waitFor({ state: "detached" });
    await changes.getByRole("button", { name: "Undo: delete no-example" }).click();
    await rules.getByRole("rowheader", { name: "no-example" }).waitFor();
    assertStringIncludes(sbx.read("profiles/mine/profile.toml"), "no-example");
    await changes.getByRole("button", { name: "Undo: create no-example" }).first().click();
    await rules.getByRole("rowheader", { name: "no-example" }).waitFor({ state: "detached" });
    assertEquals(await desktop.violations(), []);
    await compared.getByRole("button", { name: "Compare" }).click();
    // The rule that was saved in the inbox decided the event that waited there.
    await compared.getByText(/^Nothing differs: \d+ decisions of desk/).waitFor();
  });

  await t.step("rules of others are shown and cannot be saved", async () => {
    await page.getByRole("button", { name: "Show no-leak" }).click();
    await dialog.getByText("this rule is your organization's").waitFor();
    assertEquals(await dialog.getByLabel("Action").isDisabled(), true);
    await match.press("x");
    assertEquals(await match.innerText(), 'http.request.host == "leak.example"');
    assertEquals(await dialog.getByRole("button", { name: "Save rule" }).count(), 0);
    await page.keyboard.press("Escape");
    await page.getByLabel("Profile").selectOption("code");
    await page.getByText("This profile is built in").waitFor();
    await page.getByRole("button", { name: "New rule" }).waitFor();
  });
}
