/** Asks that a guest waits for, answered in the inbox. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { limitChild } from "../helper/child.ts";
import { PrivateBus } from "../helper/private_bus.ts";
import { fromRoot } from "../helper/repo.ts";
import { eventually } from "../helper/sbx.ts";
import { TrayHost } from "../helper/tray_host.ts";
import { type DesktopWorld, MARKUP } from "./desktop_world.ts";

/** A secret in a request, which the page may show as a ref only. */
const SECRET = `sk-ant-api03-${"q".repeat(93)}AA`;
const CURL = ["curl", "-s", "-m", "50", "-o", "/dev/null", "-w", "%{http_code}"];

export async function inboxSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  const curl = (path: string, ...args: string[]) =>
    sbx.cli("exec", "desk", "--", ...CURL, ...args, `http://asked.example${path}`);

  await t.step("an ask is denied by the keyboard while curl waits in the guest", async () => {
    await desktop.open("inbox");
    await page.getByText("Nothing waits for you").waitFor();
    const waiting = curl("/first", "-H", `x-hostile: ${MARKUP}`, "-d", `${MARKUP} ${SECRET}`);
    await page.getByRole("heading", { name: /asked\.example/ }).waitFor();
    assertEquals(await page.title(), "(1) sbx");
    await page.keyboard.press("Enter");
    await page.getByLabel("Body of the request").getByText(MARKUP).waitFor();
    await page.getByRole("region", { name: "The program" }).getByText(/curl/).first().waitFor();
    await page.getByRole("region", { name: "What came before" }).getByRole("row").nth(1).waitFor();
    await page.getByText("All fields of the event").click();
    await page.getByText("http.request.path", { exact: true }).waitFor();
    assertEquals(await desktop.violations(), []);
    assertEquals((await page.content()).includes(SECRET), false);
    await page.keyboard.press("d");
    await page.getByText("Nothing waits for you").waitFor();
    assertEquals((await waiting).stdout, "403");
  });

  await t.step("an ask is allowed in the tray", async () => {
    await using bus = await PrivateBus.start();
    await using host = await TrayHost.open(bus);
    const env = { ...sbx.env, DBUS_SESSION_BUS_ADDRESS: bus.address };
    const tray = limitChild(new Deno.Command(fromRoot("bin/sbx-tray"), { env, stdin: "null" }).spawn());
    const waiting = curl("/tray");
    let label: string | undefined;
    await eventually("the tray shows it", async () => {
      if (host.items.length === 0) return false;
      label = (await host.labels()).find((each) => each.startsWith("desk asks: ") && each.includes("/tray"));
      return label !== undefined;
    });
    await host.click(label!, "Allow once");
    assertEquals((await waiting).stdout, "200");
    await page.getByText("Nothing waits for you").waitFor();
    await host.click("Quit (VMs go on)");
    assertEquals((await tray.status).code, 0);
  });

  await t.step("an ask is allowed for the session, and what it covers asks no more", async () => {
    const waiting = curl("/second");
    await page.getByRole("button", { name: "Allow for the session" }).click();
    assertEquals((await waiting).stdout, "200");
    assertEquals((await curl("/second")).stdout, "200");
    assertEquals(await page.title(), "sbx");
  });

  await t.step("an ask is saved as a rule, with what that would have changed", async () => {
    const waiting = curl("/third");
    await page.getByRole("button", { name: "Save as rule" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("row", { name: /asked\.example\/third ask by ask-site allow by/ }).first()
      .waitFor();
    await dialog.getByText("The linter has no remark.").waitFor();
    assertStringIncludes(await dialog.getByLabel(/^Match/).innerText(), "/third");
    // Keys of the page do nothing while its author writes.
    await dialog.getByLabel(/^Match/).press("d");
    await dialog.locator(".cm-lintRange-error").waitFor();
    await dialog.getByLabel(/^Match/).press("Backspace");
    await dialog.getByText("The linter has no remark.").waitFor();
    assertEquals(await desktop.violations(), []);
    await dialog.getByRole("button", { name: "Save rule" }).click();
    assertEquals((await waiting).stdout, "200");
    assertEquals((await curl("/third")).stdout, "200");
  });
}
