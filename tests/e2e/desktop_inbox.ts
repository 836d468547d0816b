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
/** Answers every card in the moment in which it comes, by its button and by the key. */
const HASTY =
  `new MutationObserver((changes) => changes.flatMap(({ addedNodes }) => [...addedNodes]).forEach((node) => {
  node.querySelector?.("button.main")?.click();
  dispatchEvent(new KeyboardEvent("keydown", { key: "a" }));
})).observe(document.querySelector("main"), { childList: true, subtree: true })`;
/**
 * Tries again after 503, as clients do whose person has not answered in `HELD_MS`: a
 * machine under load reads slowly.
 */
const CURL = ["curl", "-s", "--retry", "30", "-o", "/dev/null", "-w", "%{http_code}"];

export async function inboxSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  const read = () => desktop.read();
  const curl = (path: string, ...args: string[]) =>
    sbx.cli("exec", "desk", "--", ...CURL, ...args, `http://asked.example${path}`);

  await t.step("an ask is denied by the keyboard while curl waits in the guest", async () => {
    await desktop.open("inbox");
    await page.getByText("all caught up").waitFor();
    const waiting = curl("/first", "-H", `x-hostile: ${MARKUP}`, "-d", `${MARKUP} ${SECRET}`);
    await page.getByRole("heading", { name: /asked\.example/ }).waitFor();
    assertEquals(await page.title(), "(1) Inbox – sbx");
    await page.keyboard.press("Enter");
    await page.getByLabel("Body of the request").getByText(MARKUP).waitFor();
    await page.getByRole("region", { name: "The program" }).getByText(/curl/).first().waitFor();
    await page.getByRole("region", { name: "Earlier events" }).getByRole("row").nth(1).waitFor();
    await page.getByText("All fields of the event").click();
    await page.getByText("http.request.path", { exact: true }).waitFor();
    assertEquals(await desktop.violations(), []);
    assertEquals((await page.content()).includes(SECRET), false);
    await read();
    await page.keyboard.press("d");
    await page.getByText("all caught up").waitFor();
    assertEquals((await waiting).stdout, "403");
  });

  await t.step("an answer goes to the ask that was read, whatever the guest asks meanwhile", async () => {
    // Held down since before there was an ask.
    await page.keyboard.down("a");
    const one = curl("/one");
    await page.getByRole("heading", { name: /asked\.example\/one/ }).waitFor();
    await read();
    await page.keyboard.down("a");
    await page.keyboard.up("a");
    const allow = page.getByRole("button", { name: "Allow once" });
    const place = await allow.boundingBox();
    const two = curl("/two");
    await page.getByRole("button", { name: "1 new" }).waitFor();
    assertEquals([await allow.count(), await allow.boundingBox()], [1, place]);
    const [first, second] = (await sbx.api("GET", "/asks")).body.asks;
    const blind = { decision: "allow", scope: "once", digest: first.digest };
    const refused = await sbx.api("POST", `/asks/${second.ask_id}/resolve`, blind);
    assertEquals([refused.status, refused.body.code], [409, "ask.changed"]);
    await page.evaluate(HASTY);
    await page.mouse.click(place!.x + place!.width / 2, place!.y + place!.height / 2);
    assertEquals((await one).stdout, "200");
    await page.getByRole("heading", { name: /asked\.example\/two/ }).waitFor();
    assertEquals((await sbx.api("GET", "/asks")).body.asks.length, 1);
    await read();
    await page.keyboard.press("d");
    assertEquals((await two).stdout, "403");
    await page.reload();
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
    await read();
    await host.click(label!, "Allow once");
    assertEquals((await waiting).stdout, "200");
    await page.getByText("all caught up").waitFor();
    await host.click("Quit (VMs keep running)");
    assertEquals((await tray.status).code, 0);
  });

  await t.step("an ask is allowed for the session, and what it covers asks no more", async () => {
    const waiting = curl("/second");
    const longer = page.getByRole("button", { name: "Allow for longer" });
    await longer.waitFor();
    await read();
    await longer.click();
    await page.getByRole("menuitem", { name: "Allow for the session" }).click();
    assertEquals((await waiting).stdout, "200");
    assertEquals((await curl("/second")).stdout, "200");
    assertEquals(await page.title(), "Inbox – sbx");
  });

  await t.step("an ask is saved as a rule, with what that would have changed", async () => {
    const waiting = curl("/third");
    await page.getByRole("button", { name: "Allow for longer" }).click();
    await page.getByRole("menuitem", { name: "Always allow…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("listitem").filter({
      hasText: /asked\.example\/third.*ask by ask-site → allow by/,
    })
      .first().waitFor();
    await dialog.getByText("No problems.").waitFor();
    assertStringIncludes(await dialog.getByLabel(/^Match/).innerText(), "/third");
    // Keys of the page do nothing while its author writes.
    await dialog.getByLabel(/^Match/).press("d");
    await dialog.locator(".cm-lintRange-error").waitFor();
    await dialog.getByLabel(/^Match/).press("Backspace");
    await dialog.getByText("No problems.").waitFor();
    assertEquals(await desktop.violations(), []);
    await dialog.getByRole("button", { name: "Save rule" }).click();
    assertEquals((await waiting).stdout, "200");
    assertEquals((await curl("/third")).stdout, "200");
  });
}
