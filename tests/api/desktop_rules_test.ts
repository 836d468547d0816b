/** Rules on the desktop page, in Chromium against the whole service: tried and compared on sessions that have something. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Locator } from "playwright-core";
import type { Home } from "../../lib/base/home/mod.ts";
import { shoot } from "../helper/browser.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { http, rule } from "../helper/session_gate.ts";
import { recordOf } from "../helper/vm.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const EMPTY = "00000000-0000-4000-8000-00000000000b";

/** A profile that may be changed, with no session yet. */
async function prepare(home: Home): Promise<void> {
  await Deno.mkdir(join(home.profilesDir, "mine"), { recursive: true });
  const text = `id = "mine"\nname = "Mine"\ndescription = ""\nrevision = "1.0.0"\n`;
  await Deno.writeTextFile(join(home.profilesDir, "mine", "profile.toml"), text);
}

Deno.test("rules on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({
    prepare,
    rules: rule("profiles", "no-denied", "block", 'http.request.host == "denied.example"'),
    past: [{ id: EMPTY, name: "nothing-happened", write() {} }],
  });
  const { desktop } = home;
  const { page } = desktop;
  const dialog = page.getByRole("dialog");
  const compared = page.getByRole("region", { name: "Compare with the newest session" });
  const effect = dialog.getByRole("region", { name: "Effect of the rule" });
  const write = async (match: string) => {
    await page.getByRole("button", { name: "New rule" }).click();
    await dialog.getByLabel("Id").fill("no-tried");
    await dialog.getByLabel("Action").selectOption("block");
    await dialog.getByLabel(/^Match/).press("Control+a");
    await page.keyboard.insertText(match);
  };
  const discard = async () => {
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Discard it" }).click();
  };
  await home.gate.decide(http("tried.example"));
  await home.ledger.flush();

  await t.step("without a session that has a decision, neither reports success", async () => {
    await desktop.open("rules?profile=mine");
    await compared.getByRole("button", { name: "Compare" }).click();
    await compared.getByText("No session of this profile has a decision yet. Start a VM with it").waitFor();
    await write('http.request.host == "tried.example"');
    await effect.getByRole("button", { name: "Try on the newest session" }).click();
    await effect.getByText("No session of this profile has a decision yet. Start a VM with it").waitFor();
    assertEquals(await desktop.violations(), []);
    await discard();
  });

  await t.step("a newer session without an event is passed over", async () => {
    const { sessions } = await home.withClient((client) =>
      client.json<{ sessions: { name: string }[] }>("GET", "/sessions/list")
    );
    assertEquals(sessions.map(({ name }) => name), ["nothing-happened", "dev"]);
    await desktop.open("rules?profile=code");
    await compared.getByRole("button", { name: "Compare" }).click();
    await compared.getByText("Nothing differs: 1 decisions of dev.").waitFor();
    for (const [id, name] of [[home.id, "dev"], [EMPTY, "nothing-happened"]]) {
      home.service.sessions.put({ ...recordOf(id, name), profile_id: "mine" });
    }
    await desktop.open("rules?profile=mine");
    await write('http.request.host == "tried.example"');
    await effect.getByRole("button", { name: "Try on the newest session" }).click();
    await effect.getByText("It changes 1 of 1 decisions of dev:").waitFor();
    await effect.getByRole("row", { name: /tried\.example.*block by no-tried/ }).waitFor();
    await discard();
  });

  await t.step("from a denial to a rule in force: three clicks", async () => {
    for (let at = 0; at < 3; at++) await home.gate.decide(http("denied.example"));
    await desktop.open("vm", "dev", "timeline");
    const list = page.getByRole("listbox", { name: "Events" });
    const repeated = list.getByRole("option", { name: /×3 .*denied\.example/ });
    let clicks = 0;
    const click = async (target: Locator) => {
      await target.click();
      clicks++;
    };
    await click(repeated);
    await click(page.getByRole("region", { name: "Why" }).getByRole("button", { name: "Allow this" }));
    assertEquals(await dialog.getByLabel("Id").inputValue(), "allow-denied-example");
    await dialog.getByText(/^It changes|^The rule/).first().waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "allow_this");
    await click(dialog.getByRole("button", { name: "Save rule" }));
    await dialog.waitFor({ state: "detached" });
    const saved = await Deno.readTextFile(join(home.home.dir, "rules/code.toml"));
    assertStringIncludes(saved, '[profiles.rules.allow-denied-example]\naction = "allow"');
    assertEquals(clicks, 3);
  });

  await t.step("events that repeat are one line, which opens and closes by the arrows", async () => {
    const list = page.getByRole("listbox", { name: "Events" });
    const alike = list.getByRole("option", { name: /denied\.example/ });
    assertEquals(await alike.count(), 1);
    await list.focus();
    await page.keyboard.press("ArrowRight");
    await list.getByRole("option").nth(3).waitFor();
    assertEquals(await alike.count(), 4);
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "timeline_repeats");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowLeft");
    await list.getByText("×3 ▾").click();
    await alike.nth(1).waitFor({ state: "detached" });
  });

  assertEquals(desktop.problems, []);
});
