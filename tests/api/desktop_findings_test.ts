/**
 * Findings on the desktop page: their decision, their life, exceptions from them, and
 * more of them than one answer has.
 */
import { assertEquals } from "@std/assert";
import type { Locator } from "playwright-core";
import { type Event, newEventId } from "../../lib/event/mod.ts";
import type { Ledger, LedgerDecision, LedgerFinding } from "../../lib/ledger/mod.ts";
import { shoot } from "../helper/browser.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { eachView } from "../helper/desktop_views.ts";
import { eventCommon, httpRequest } from "../helper/event.ts";
import { http } from "../helper/session_gate.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const PAST = "00000000-0000-4000-8000-00000000000b";
/** More than one answer of the route has. */
const COUNT = 1203;

/** Bytes that left with each upload. */
const BYTES = "rows of a customer";
const BODY = { state: "text", text: BYTES, truncated: false } as const;

/** Records `upload1` … each with a finding; the last two are lookups of one name. */
function writeFindings(ledger: Ledger, session_id = PAST, from = 1, start = 1_790_000_000_000): void {
  for (let at = from; at <= COUNT; at++) {
    const isLookup = at > COUNT - 2;
    const event_id = newEventId();
    const common = eventCommon(isLookup ? "dns.query" : "http.request", {
      session_id,
      event_id,
      timestamp_unix_ms: start + at,
    });
    const dns = { request: { qname: "leak.example", qtype: at === COUNT ? "AAAA" : "A" } };
    const event = {
      schema_version: 1,
      common,
      ...isLookup ? { dns } : { http: { request: httpRequest({ host: `upload${at}.example`, body: BODY }) } },
    } as unknown as Event;
    ledger.append({
      event,
      decision: {
        event_id,
        decision: at % 2 === 0 ? "block" : "allow",
        rule: { id: "my-rule", name: "", layer: "profile", reason: "a rule of mine" },
        matched_fields: [],
        rewrites: [],
        evaluated: 1,
        near_misses: [],
      } as LedgerDecision,
      findings: [{
        finding_id: `finding-${event_id}-upload`,
        event_id,
        rule_id: isLookup ? "lookup" : "upload",
        pack_id: "p",
        title: isLookup ? "A lookup of a leak" : `Upload ${at}`,
        severity: at % 3 === 0 ? "high" : "medium",
        confidence: "high",
        tags: [],
      } as unknown as LedgerFinding],
    });
  }
}

Deno.test("findings on the desktop page", options, async (t) => {
  const corp = { rule: { theft: ["pause" as const] } };
  await using home = await DesktopHome.make({
    past: [{ id: PAST, name: "gone", write: (ledger) => writeFindings(ledger) }],
    response: { corp },
  });
  const { desktop } = home;
  const { page } = desktop;
  const row = (name: string | RegExp) =>
    page.getByRole("table", { name: "Findings" }).getByRole("row", { name });
  await desktop.open("session", PAST, "findings");

  await t.step("each has its decision, and those of one lookup are one row with a count", async () => {
    await row(/A lookup of a leak ×2/).waitFor();
    assertEquals(await row(/A lookup of a leak/).count(), 1);
    await row(/Upload 1200 upload high blocked /).waitFor();
    await row(/Upload 1199 upload medium allowed /).waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "findings");
  });

  await t.step("the oldest of more than a thousand is reached page by page", async () => {
    await page.getByText("The newest 200 findings").waitFor();
    for (const text of [400, 600, 800].map((count) => `The newest ${count} findings`)) {
      await page.getByRole("button", { name: "Load older findings" }).click();
      await page.getByText(text).waitFor();
    }
    for (const text of ["The newest 1,000 findings", "The newest 1,200 findings", "1,203 findings"]) {
      await page.getByRole("button", { name: "Load older findings" }).click();
      await page.getByText(text).waitFor();
    }
    await row(/^Upload 1 /).waitFor();
  });

  await t.step("a group is acknowledged and closed with a verdict, a reason and a name", async () => {
    // Over a thousand rows, drawn after each step, take a busy machine too long.
    await page.reload();
    await page.getByText("The newest 200 findings").waitFor();
    await page.getByRole("button", { name: "Acknowledge A lookup of a leak" }).click();
    await page.getByText("2 findings are acknowledged.").waitFor();
    await row(/A lookup of a leak/).waitFor({ state: "detached" });
    await page.getByLabel("State").selectOption("acknowledged");
    await page.getByRole("button", { name: "Close A lookup of a leak" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Verdict").selectOption("false-positive");
    await dialog.getByLabel("Reason").fill("a test of ours");
    assertEquals(await desktop.violations(), []);
    await dialog.getByRole("button", { name: "Close…" }).click();
    await page.getByText("2 findings are closed.").waitFor();
    await page.getByLabel("State").selectOption("closed");
    await row(/A lookup of a leak .*Closed: false-positive, by .*, a test of ours/).waitFor();
    await page.waitForURL(/state=closed/);
  });

  await t.step("Escape keeps what is written, until its author discards it", async () => {
    await page.getByLabel("State").selectOption("open");
    await page.getByRole("button", { name: "Except Upload 1200" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("our own server");
    for (let times = 0; times < 2; times++) {
      await page.keyboard.press("Escape");
      await dialog.getByText("Your draft is not saved.").waitFor();
      await dialog.getByRole("button", { name: "Keep writing" }).click();
      assertEquals(await dialog.getByLabel("Reason").inputValue(), "our own server");
    }
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Discard it" }).click();
    await dialog.waitFor({ state: "detached" });
    // Without a draft Escape closes at once.
    await page.getByRole("button", { name: "Except Upload 1200" }).click();
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  await t.step("an exception is made in one step, listed, and removed after a question", async () => {
    await page.getByRole("button", { name: "Except Upload 1200" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("the VM").uncheck();
    await dialog.getByLabel("Reason").fill("our own server");
    await dialog.getByRole("button", { name: "Except…" }).click();
    await dialog.getByText("Choose at least one of host, program and VM.").waitFor();
    await dialog.getByLabel("the host").check();
    await dialog.getByRole("button", { name: "Except…" }).click();
    const exceptions = page.getByRole("region", { name: "Exceptions" });
    await exceptions.getByRole("row", { name: /upload host upload1200\.example our own server/ }).waitFor();
    await row(/Upload 1200 /).waitFor({ state: "detached" });
    await exceptions.getByRole("button", { name: "Remove the exception from upload" }).click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await exceptions.getByRole("row", { name: /our own server/ }).waitFor();
    await exceptions.getByRole("button", { name: "Remove the exception from upload" }).click();
    await dialog.getByRole("button", { name: "Remove the exception from upload" }).click();
    await exceptions.waitFor({ state: "detached" });
    await row(/Upload 1200 /).waitFor();
  });

  await t.step("a finding leads to its event; a message of success leaves, an error stays", async () => {
    await row(/Upload 1202 /).or(row(/Upload 1201 /)).first().getByRole("link").click();
    await page.getByRole("region", { name: "Why" }).getByText("upload1201.example").first().waitFor();
    await page.getByRole("status").getByText("is removed").waitFor({ state: "detached" });
  });

  await t.step(
    "findings of all sessions are one list, and a high one is among what needs a person",
    async () => {
      // Three uploads, the last of which is high, and two lookups of one name.
      writeFindings(home.ledger, home.id, COUNT - 4, Date.now() - 60_000);
      await home.ledger.flush();
      await desktop.open("findings");
      await row(/Upload 1200 .*high dev/).waitFor();
      await row(/A lookup of a leak ×/).waitFor();
      assertEquals(await desktop.violations(), []);
      await shoot(desktop, "findings_of_all");
      await page.getByLabel("At least").selectOption("high");
      await page.waitForURL(/severity=high$/);
      await row(/Upload 1200/).waitFor();
      await row(/Upload 1199/).waitFor({ state: "detached" });
      await desktop.open("overview");
    },
  );

  await t.step(
    "from a finding to the bytes that left: three clicks, in each view",
    () =>
      eachView(desktop, async () => {
        await desktop.open("overview");
        let clicks = 0;
        const click = async (target: Locator) => {
          await target.click();
          clicks++;
        };
        await click(
          page.getByRole("region", { name: "Needs you" }).getByRole("link", { name: /Upload 1200/ }),
        );
        await page.waitForURL(/#\/vm\/dev\/findings$/);
        await click(row(/Upload 1200/).getByRole("link"));
        const why = page.getByRole("region", { name: "Why" });
        await click(why.getByText("All fields"));
        await why.getByText(BYTES).waitFor();
        assertEquals(clicks, 3);
      }),
  );

  await t.step("a VM that a finding holds back says why, and is let go after a question", async () => {
    const held = page.getByRole("region", { name: "A finding holds dev back" });
    const report = (rule_id: string) => {
      const event_id = newEventId();
      home.gate.report([{
        finding_id: `finding-${event_id}-${rule_id}`,
        event_id,
        rule_id,
        pack_id: "sbx.builtin",
        title: `a <b>secret</b> was used: ${rule_id}`,
        severity: "critical",
        confidence: "high",
        tags: [],
      }]);
    };
    await desktop.open("vm", "dev", "timeline");
    await page.getByRole("heading", { name: "dev" }).waitFor();
    assertEquals(await held.count(), 0);
    report("credential-decoy");
    await held.getByText("Its network is blocked.").waitFor();
    await held.getByText("critical: a <b>secret</b> was used: credential-decoy").waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "held");
    assertEquals((await home.gate.decide(http("one.example"))).allowed, false);
    const lift = { name: "Lift it from dev" };
    await held.getByRole("button", lift).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await held.getByRole("button", lift).click();
    await page.getByRole("dialog").getByRole("button", lift).click();
    await held.waitFor({ state: "detached" });
    assertEquals((await home.gate.decide(http("one.example"))).allowed, true);

    report("theft");
    await held.getByText("It is paused (corp.toml).").waitFor();
    await held.getByRole("button", lift).click();
    await page.getByRole("dialog").getByRole("button", lift).click();
    // Corp's demand stays, and the page says so.
    await page.getByRole("alert").or(page.getByRole("status")).getByText("so it cannot be lifted here")
      .waitFor();
    await held.waitFor();
  });

  assertEquals(desktop.problems.filter((problem) => !problem.includes("403")), []);
});
