/** Asks on the desktop page: seen on every page, answered with a reach, and never gone without a trace. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { PastAsks } from "../../lib/client/api/mod.ts";
import { readApproval, readWhy, verifyLedger } from "../../lib/ledger/read/mod.ts";
import { shoot } from "../helper/browser.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { checkViews, eachView } from "../helper/desktop_views.ts";
import { httpRequest } from "../helper/event.ts";
import { rule } from "../helper/session_gate.ts";

interface RecordedEvent {
  common: { actor: string; labels: Record<string, string> };
  process: { activity: { command: string } };
}

const options = { sanitizeResources: false, sanitizeOps: false };
/** Longer than a busy machine takes for a step. */
const WAITS = "ask_timeout = 900";
const RULES = rule(
  "profiles",
  "ask-site",
  "ask",
  'http.request.host == "asked.example"',
  `${WAITS}
reason = "a person decides"`,
) +
  rule("profiles", "ask-lasting", "ask", 'http.request.host == "lasting.example"', WAITS) +
  rule("profiles", "ask-soon", "ask", 'http.request.host == "soon.example"', "ask_timeout = 4");

Deno.test("asks on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({ rules: RULES });
  const { desktop } = home;
  const { page } = desktop;
  const request = async (host: string, path: string) => {
    const passage = await home.gate.decide({
      common: { event_type: "http.request", source_engine: "network" },
      http: { request: httpRequest({ host, path }) },
    });
    return passage.allowed;
  };
  const read = () => desktop.read();
  const card = (name: RegExp) =>
    page.getByRole("listitem").filter({ has: page.getByRole("heading", { name }) });

  await t.step("an ask is seen on every page, and one click leads to it", async () => {
    await desktop.open("settings");
    const waiting = request("asked.example", "/bar");
    await page.getByText("dev waits for your answer").waitFor();
    assertEquals(await page.title(), "(1) Settings – sbx");
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "ask_bar");
    await page.getByRole("link", { name: "Details" }).click();
    await card(/asked\.example\/bar/).waitFor();
    await read();
    await page.getByRole("button", { name: "Allow once" }).click();
    assertEquals(await waiting, true);
    await page.getByText(/^Allowed: .*asked\.example\/bar/).waitFor();
  });

  await t.step("an ask is answered on any page, once it was there to be read", async () => {
    await desktop.open("settings");
    const bar = page.getByRole("region", { name: "dev waits for your answer" });
    const first = request("asked.example", "/first");
    await bar.getByText("asked.example/first").waitFor();
    // Another one moves nothing under the hand.
    const second = request("asked.example", "/second");
    await bar.getByRole("link", { name: "1 more" }).waitFor();
    await bar.getByText("asked.example/first").waitFor();
    await bar.getByRole("img", { name: /^Denied in \d+ min without an answer$/ }).waitFor();
    await read();
    // In the moment in which the button of the second one is where the other one was,
    // and the answer to that is known.
    await page.evaluate(`new MutationObserver((_, observer) => {
      const bar = document.querySelector(".ask-bar");
      if (!bar?.textContent.includes("asked.example/second")) return;
      if (!document.querySelector(".notice").textContent.includes("asked.example/first")) return;
      observer.disconnect();
      bar.querySelector("button").click();
    }).observe(document.body, { childList: true, subtree: true, characterData: true })`);
    await bar.getByRole("button", { name: "Deny" }).click();
    assertEquals(await first, false);
    await bar.getByText("asked.example/second").waitFor();
    await page.getByText("Not answered: this ask had only just appeared here.").waitFor();
    await read();
    await bar.getByRole("button", { name: "Allow for longer" }).click();
    await page.getByRole("menuitem", { name: "Always allow…" }).waitFor();
    await page.getByRole("menuitem", { name: "Allow for 10 minutes" }).click();
    assertEquals(await second, true);
    await bar.waitFor({ state: "detached" });
    assertEquals(await request("asked.example", "/second"), true);
    await desktop.open("inbox");
    const inForce = page.getByRole("region", { name: "Answers in force" });
    await inForce.getByRole("button", { name: /^Withdraw the answer for .*asked\.example/ }).click();
    await inForce.waitFor({ state: "detached" });
  });

  await t.step(
    "a notification of a page in the background leads to its ask: two clicks to an answer, in each view",
    () =>
      eachView(desktop, async (at) => {
        await desktop.open("rules");
        await page.waitForURL(/#\/rules/);
        const shown = page.evaluate(`new Promise((resolve) => {
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        globalThis.Notification = class {
          static permission = "granted";
          constructor(title) {
            globalThis.shown = this;
            resolve(title);
          }
          close() {}
        };
      })`);
        await page.evaluate("0");
        const waiting = request("asked.example", `/notified${at}`);
        assertEquals(await shown, "dev waits for your answer");
        // The first click, and the second one is the answer.
        await page.evaluate("delete document.hidden; globalThis.shown.onclick()");
        const asked = card(new RegExp(`asked\\.example/notified${at}`));
        await asked.and(page.locator("[aria-current=true]")).waitFor();
        await read();
        await asked.getByRole("button", { name: "Deny", exact: true }).click();
        assertEquals(await waiting, false);
      }),
  );

  await t.step(
    "longer answers are in a menu, by keys; letters in it answer nothing",
    () =>
      eachView(desktop, async (at, look) => {
        const waiting = request("asked.example", `/menu${at}`);
        const asked = card(new RegExp(`asked\\.example/menu${at}`));
        await asked.waitFor();
        await read();
        await asked.getByRole("button", { name: "Allow for longer" }).press("Enter");
        const items = page.getByRole("menuitem");
        await items.first().waitFor();
        assertEquals(await items.allInnerTexts(), [
          "Allow for 10 minutes",
          "Allow for the session",
          "Always allow…",
        ]);
        await look("inbox_menu");
        await page.keyboard.press("d");
        await page.keyboard.press("ArrowDown");
        await items.and(page.locator(":focus")).filter({ hasText: "the session" }).waitFor();
        await page.keyboard.press("Escape");
        await items.first().waitFor({ state: "detached" });
        assertEquals((await home.service.asks.list()).length, 1);
        await asked.getByRole("button", { name: "Allow for longer" }).press("Enter");
        await page.keyboard.press("Enter");
        assertEquals(await waiting, true);
        const inForce = page.getByRole("region", { name: "Answers in force" });
        await inForce.getByRole("button", { name: /^Withdraw the answer for .*asked\.example/ }).click();
        await inForce.waitFor({ state: "detached" });
      }),
  );

  await t.step("an answer covers the whole host for ten minutes, as chosen", async () => {
    const waiting = request("asked.example", "/wide");
    await card(/asked\.example\/wide/).waitFor();
    await page.getByText("Choose what, and for how long").click();
    await page.getByLabel(/^The whole host/).check();
    assertEquals(await page.getByLabel("For how long").inputValue(), "minutes");
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "inbox");
    await read();
    await page.getByRole("button", { name: "Deny this" }).click();
    assertEquals(await waiting, false);
    assertEquals(await request("asked.example", "/another"), false);
    const inForce = page.getByRole("region", { name: "Answers in force" });
    await inForce.getByRole("row", { name: /asked\.example.* denied dev in \d+ min/ }).waitFor();
    assertEquals((await home.service.asks.list()).length, 0);
  });

  await t.step("an answer in force is withdrawn, on record, and the next event is asked about", async () => {
    const inForce = page.getByRole("region", { name: "Answers in force" });
    await inForce.getByRole("button", { name: /^Withdraw the answer for .*asked\.example/ }).click();
    await inForce.waitFor({ state: "detached" });
    await page.getByText(/^Withdrawn: you are asked about/).waitFor();
    const waiting = request("asked.example", "/after");
    await card(/asked\.example\/after/).waitFor();
    await read();
    await page.getByRole("button", { name: "Deny" }).first().click();
    assertEquals(await waiting, false);
    await home.ledger.flush();
    const { events } = await home.withClient((client) =>
      client.json<{ events: RecordedEvent[] }>("GET", `/sessions/${home.id}/events?family=process`)
    );
    const { common, process } = events.at(-1)!;
    assertEquals([process.activity.command.slice(0, 24), common.actor], ["sbx-answer withdraw ask-", "host"]);
    assertEquals([common.labels.answer, common.labels.rule_id], ["deny", "ask-site"]);
  });

  await t.step("an ask that expires leaves a trace", async () => {
    await desktop.open("status");
    assertEquals(await request("soon.example", "/late"), false);
    await desktop.open("inbox");
    const over = page.getByRole("region", { name: "Answered and expired" });
    await over.getByRole("row", { name: /soon\.example\/late dev expired without an answer/ }).waitFor();
    await over.getByRole("row", { name: /asked\.example\/bar dev allowed \w/ }).waitFor();
    // By the records: also for a page that was opened later.
    await page.reload();
    await over.getByRole("row", { name: /asked\.example\/wide dev denied for 10 min, the host \w/ })
      .waitFor();
    assertEquals(await desktop.violations(), []);
  });

  await t.step(
    "the record has every ask with its end, its author and its reach, bound to its event",
    async () => {
      const kept = async (path: string) => {
        const { asks } = await home.withClient((client) => client.json<PastAsks>("GET", "/asks/history"));
        const ask = asks.find(({ subject }) => subject.endsWith(path))!;
        const { vm, ...record } = ask;
        assertEquals(vm, "dev");
        assertEquals(await readApproval(home.paths.ledger, ask.event_id), record);
        const { event, record: decision } = await readWhy(home.paths.ledger, ask.event_id);
        assertEquals([event.common.event_type, decision?.rule?.id], [ask.event_type, ask.rule_id]);
        const { status, answer, answered_by } = ask;
        return [status, answer?.scope, answer?.of, answered_by?.user !== undefined];
      };
      await home.ledger.flush();
      assertEquals(await kept("asked.example/bar"), ["allowed", "once", undefined, true]);
      assertEquals(await kept("asked.example/wide"), ["denied", "minutes", "host", true]);
      assertEquals(await kept("soon.example/late"), ["expired", undefined, undefined, false]);
      const copy = join(home.dir, "copy.db");
      const changed = new DatabaseSync(home.paths.ledger);
      changed.prepare("VACUUM INTO ?").run(copy);
      changed.close();
      assertEquals((await verifyLedger(copy)).ok, true);
      const copied = new DatabaseSync(copy);
      copied.exec("DELETE FROM approvals WHERE record ->> '$.status' = 'expired'");
      copied.close();
      assertMatch((await verifyLedger(copy)).first_bad!.reason, /of approvals is missing/);
    },
  );

  await t.step("always is a rule, which is listed and withdrawn after a question", async () => {
    const asks = { action: "ask", match: 'http.request.host == "lasting.example"' };
    const made = await home.ask("POST", "/profiles/code/enforcement/rules/create", {
      rule_id: "ask-lasting",
      rule: asks,
    });
    assertEquals(made.status, 200, await made.text());
    const file = join(home.home.dir, "rules/code.toml");
    const before = await Deno.readTextFile(file);
    const waiting = request("lasting.example", "/always");
    await card(/lasting\.example\/always/).waitFor();
    await page.getByText("Choose what, and for how long").click();
    await page.getByLabel(/^Its path/).check();
    await page.getByLabel("For how long").selectOption("always");
    await read();
    await page.getByRole("button", { name: "Allow this" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/^Now:\s+ask\s+http\.request\.host == "lasting\.example"$/).waitFor();
    assertEquals(await Deno.readTextFile(file), before);
    await checkViews(desktop, "always");
    await dialog.getByRole("button", { name: "Save rule" }).click();
    assertEquals(await waiting, true);
    const always = page.getByRole("region", { name: "Always allowed" });
    const withdraw = always.getByRole("button", { name: /^Withdraw/ });
    await withdraw.waitFor();
    assert(await Deno.readTextFile(file) !== before);
    await withdraw.click();
    await page.getByRole("dialog").getByRole("button", { name: /^Withdraw/ }).click();
    await always.waitFor({ state: "detached" });
    assertEquals(await Deno.readTextFile(file), before);
  });

  assertEquals(desktop.problems, []);
});
