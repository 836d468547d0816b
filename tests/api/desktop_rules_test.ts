/**
 * Rules on the desktop page, in Chromium against the whole service: tried and compared
 * on sessions that have something.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Locator } from "playwright-core";
import type { Home } from "../../lib/base/home/mod.ts";
import { isPattern, shoot } from "../helper/browser.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { checkViews, eachView } from "../helper/desktop_views.ts";
import { http, rule } from "../helper/session_gate.ts";
import { recordOf } from "../helper/vm.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const EMPTY = "00000000-0000-4000-8000-00000000000b";

/** Hosts that are blocked, one for each view. */
const DENIED = ["one.example", "two.example", "three.example", "denied.example"];

/** A profile that may be changed, with no session yet. */
async function prepare(home: Home): Promise<void> {
  await Deno.mkdir(join(home.profilesDir, "mine"), { recursive: true });
  const text = `id = "mine"\nname = "Mine"\ndescription = ""\nrevision = "1.0.0"\n`;
  await Deno.writeTextFile(join(home.profilesDir, "mine", "profile.toml"), text);
}

Deno.test("rules on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({
    prepare,
    rules: rule("profiles", "no-denied", "block", `http.request.host in ${JSON.stringify(DENIED)}`),
    past: [{ id: EMPTY, name: "nothing-happened", write() {} }],
  });
  const { desktop } = home;
  const { page } = desktop;
  const dialog = page.getByRole("dialog");
  const compared = page.getByRole("region", { name: "Compare with the newest session" });
  const effect = dialog.getByRole("region", { name: "What it changes" });
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
    await desktop.open("rules");
    await page.getByLabel("Profile").selectOption("mine");
    await page.waitForURL(/#\/rules\?profile=mine$/);
    await page.reload();
    await compared.getByRole("button", { name: "Compare" }).click();
    await compared.getByText("No session of this profile has a decision yet. Start a VM with it").waitFor();
    await write('http.request.host == "tried.example"');
    await effect.getByText("No session of this profile has a decision of the last 7 days").waitFor();
    assertEquals(await desktop.violations(), []);
    await dialog.getByLabel("Id").fill("no good!");
    await dialog.getByRole("button", { name: "Save rule" }).click();
    const refused = dialog.getByRole("alert").getByText(/rule_id: rule ids may contain letters, digits/);
    await refused.waitFor();
    assertEquals(isPattern(await refused.innerText()), false);
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
    const hit = page.getByRole("row", { name: /allow-http/ }).getByRole("cell").nth(4);
    await hit.getByText("1", { exact: true }).waitFor();
    for (const [id, name] of [[home.id, "dev"], [EMPTY, "nothing-happened"]]) {
      home.service.sessions.put({ ...recordOf(id, name), profile_id: "mine" });
    }
    await desktop.open("rules?profile=mine");
    await write('http.request.host == "tried.example"');
    await effect.getByText("It changes 1 of 1 decisions of the last 7 days in 1 session.").waitFor();
    await effect.getByRole("listitem").filter({ hasText: /tried\.example.*block by no-tried/ }).waitFor();
    await discard();
  });

  await t.step(
    "from a denial to a rule in force: three clicks, in each view",
    () =>
      eachView(desktop, async (at) => {
        for (let repeat = 0; repeat < 3; repeat++) await home.gate.decide(http(DENIED[at]));
        // The page reads the record as it opens.
        await home.ledger.flush();
        await desktop.open("vm", "dev", "timeline");
        const list = page.getByRole("listbox", { name: "Events" });
        let clicks = 0;
        const click = async (target: Locator) => {
          await target.click();
          clicks++;
        };
        // The count in the middle of a narrow line opens it.
        await click(
          list.getByRole("option", { name: new RegExp(`×3 .*${DENIED[at]}`) }).getByText(DENIED[at]),
        );
        await click(page.getByRole("region", { name: "Why" }).getByRole("button", { name: "Allow this" }));
        const id = `allow-${DENIED[at].replaceAll(".", "-")}`;
        assertEquals(await dialog.getByLabel("Id").inputValue(), id);
        await dialog.getByText(/^It changes/).first().waitFor();
        assertEquals(await desktop.violations(), []);
        if (at === 0) await shoot(desktop, "allow_this");
        await click(dialog.getByRole("button", { name: "Save rule" }));
        await dialog.waitFor({ state: "detached" });
        const saved = await Deno.readTextFile(join(home.home.dir, "rules/code.toml"));
        assertStringIncludes(saved, `[profiles.rules.${id}]\naction = "allow"`);
        assertEquals(clicks, 3);
      }),
  );

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

  await t.step("a rule for a built-in profile is written as a sentence, changed and deleted", async () => {
    await desktop.open("rules?profile=code");
    await page.getByText("This profile is built in").waitFor();
    await page.getByRole("button", { name: "New rule" }).click();
    await dialog.getByLabel("Id").fill("no-uploads");
    await dialog.getByLabel("Action").selectOption("block");
    await dialog.getByRole("button", { name: "Add a condition" }).click();
    const first = dialog.getByRole("group", { name: "Condition 1" });
    await first.getByLabel("Comparison").selectOption("domain");
    await first.getByLabel("Value").fill("upload.example");
    await dialog.getByRole("button", { name: "Add a condition" }).click();
    const second = dialog.getByRole("group", { name: "Condition 2" });
    await second.getByLabel("Comparison").selectOption("in");
    await second.getByLabel("Value").fill("POST, PUT");
    const text = 'in_domain(http.request.host, "upload.example") && http.request.method in ["POST", "PUT"]';
    const match = dialog.getByLabel(/^Match/);
    assertEquals(await match.innerText(), text);
    await dialog.getByText("No problems.").waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "sentence");
    // The other way: text that is a sentence becomes one, text that is more stays text.
    await match.press("Control+End");
    await page.keyboard.type(' && http.request.path == "/a"');
    const third = dialog.getByRole("group", { name: "Condition 3" });
    assertEquals(await third.getByLabel("Value").inputValue(), "/a");
    await page.keyboard.type(" || true");
    await dialog.getByText("This match is more than a sentence").waitFor();
    await match.press("Control+a");
    await page.keyboard.insertText(text);
    await second.waitFor();
    await dialog.getByRole("button", { name: "Save rule" }).click();
    await dialog.waitFor({ state: "detached" });
    const file = () => Deno.readTextFile(join(home.home.dir, "rules/code.toml"));
    assertStringIncludes(await file(), "[profiles.rules.no-uploads]");
    await page.getByRole("button", { name: "Edit no-uploads", exact: true }).click();
    assertEquals(await first.getByLabel("Value").inputValue(), "upload.example");
    await dialog.getByRole("button", { name: "Close" }).click();
    // Off, it is still to be seen.
    const off = page.getByRole("region", { name: "Rules that are off" });
    await page.getByRole("button", { name: "Turn off no-uploads" }).click();
    await off.getByRole("row", { name: /no-uploads/ }).waitFor();
    assertStringIncludes(await file(), "enabled = false");
    await checkViews(desktop, "rules_off");
    await off.getByRole("button", { name: "Turn on no-uploads" }).click();
    await off.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Edit no-uploads", exact: true }).click();
    await dialog.getByRole("button", { name: "Delete rule" }).click();
    await dialog.getByRole("button", { name: /^Delete the rule/ }).click();
    await dialog.waitFor({ state: "detached" });
    assertEquals((await file()).includes("no-uploads"), false);
  });

  await t.step(
    "an edit made elsewhere is not overwritten: it is refused, and the newer rule is shown",
    async () => {
      const path = "/profiles/mine/enforcement/rules";
      const saveElsewhere = async (method: string, at: string, host: string) => {
        const table = { action: "block", match: `http.request.host == "${host}"` };
        const body = method === "POST" ? { rule_id: "no-twice", rule: table } : table;
        assertEquals((await home.ask(method, `${path}/${at}`, body)).status, 200);
      };
      await saveElsewhere("POST", "create", "first.example");
      await desktop.open("rules?profile=mine");
      const rules = page.getByRole("table", { name: "Rules in the order in which they decide" });
      const row = rules.getByRole("row", { name: /no-twice/ });
      await row.getByText("first.example").waitFor();
      await saveElsewhere("PUT", "no-twice", "second.example");
      await page.getByRole("button", { name: "Turn off no-twice", exact: true }).click();
      await page.getByText(/the rule "no-twice" has changed since it was read/).waitFor();
      await row.getByText("second.example").waitFor();
      const off = page.getByRole("region", { name: "Rules that are off" });
      assertEquals(await off.count(), 0);

      await page.getByRole("button", { name: "Edit no-twice", exact: true }).click();
      await saveElsewhere("PUT", "no-twice", "third.example");
      await dialog.getByLabel("Action").selectOption("ask");
      await dialog.getByRole("button", { name: "Save rule" }).click();
      const newer = dialog.getByRole("alert");
      await newer.getByText("third.example").waitFor();
      assertEquals(await desktop.violations(), []);
      await newer.getByRole("button", { name: "open the newer one" }).click();
      assertStringIncludes(await dialog.getByLabel(/^Match/).innerText(), "third.example");
      assertEquals(await dialog.getByLabel("Action").inputValue(), "block");

      await saveElsewhere("PUT", "no-twice", "fourth.example");
      await dialog.getByLabel("Action").selectOption("ask");
      await dialog.getByRole("button", { name: "Save rule" }).click();
      await newer.getByText("fourth.example").waitFor();
      await newer.getByRole("button", { name: "Save mine over it" }).click();
      await dialog.waitFor({ state: "detached" });
      await row.getByText("third.example").waitFor();
      await row.getByText("ask", { exact: true }).waitFor();
    },
  );

  await t.step("a blocked event is allowed from a window of 390 px", async () => {
    await home.gate.decide(http("denied.example", "PATCH"));
    await home.ledger.flush();
    await page.setViewportSize({ width: 390, height: 844 });
    await desktop.open("vm", "dev", "timeline");
    await page.getByRole("option", { name: /PATCH .*denied\.example/ }).click();
    const allow = page.getByRole("region", { name: "Why" }).getByRole("button", { name: "Allow this" });
    await allow.waitFor();
    // In sight above the navigation, without scrolling.
    await desktop.settled();
    const seen = (await allow.boundingBox())!;
    assertEquals([seen.y >= 0, seen.y + seen.height <= 844 - 48], [true, true]);
    await allow.click();
    await dialog.getByText(/^It changes/).first().waitFor();
    const wider = await dialog.evaluate(
      new Function("dialog", "return dialog.scrollWidth - dialog.clientWidth") as never,
    );
    assertEquals(wider, 0);
    const [box, width] = [await dialog.boundingBox(), 390];
    assertEquals([box!.x >= 0, box!.x + box!.width <= width], [true, true]);
    assertEquals(await desktop.violations(), []);
    await page.keyboard.press("Escape");
    await page.setViewportSize({ width: 1200, height: 800 });
  });

  assertEquals(desktop.problems, []);
});
