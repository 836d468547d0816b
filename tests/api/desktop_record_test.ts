/**
 * The desktop page's record of a VM, in Chromium against the whole service: the
 * timeline, past sessions, outages.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import type { Ledger, LedgerDecision } from "../../lib/ledger/mod.ts";
import { readHeads } from "../../lib/ledger/read/mod.ts";
import { type LedgerWitness, witnessFolder, witnessPath } from "../../lib/ledger/witness/mod.ts";
import { verifyCertificate } from "../../lib/lab/certify/mod.ts";
import { readMachineKey } from "../../lib/release/signing/mod.ts";
import { shoot } from "../helper/browser.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { http } from "../helper/session_gate.ts";
import { eventCommon, httpRequest } from "../helper/event.ts";
import { execEvent } from "../helper/ledger.ts";
import { newEventId } from "../../lib/event/mod.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const PAST = "00000000-0000-4000-8000-00000000000a";
const BUILT = "00000000-0000-4000-8000-00000000000b";
/** More than a page of the record has. */
const PROGRAMS = 1100;
/** More than two pages of the record. */
const EVENTS = 2500;

/** Records requests to `host1`, `host2` … of one session. */
function writeRequests(ledger: Ledger, id: string, count: number): void {
  for (let at = 1; at <= count; at++) {
    const common = eventCommon("http.request", {
      session_id: id,
      event_id: newEventId(),
      timestamp_unix_ms: 1_790_000_000_000 + at * 1000,
    });
    ledger.append({
      event: {
        schema_version: 1,
        common,
        http: { request: httpRequest({ host: `host${at}.example` }) },
      } as never,
      decision: {
        event_id: common.event_id,
        decision: at % 500 === 0 ? "block" : "allow",
        rule: { id: "my-rule", name: "", layer: "profile", reason: "a rule of mine" },
        matched_fields: [],
        rewrites: [],
        evaluated: 1,
        near_misses: [],
      } as LedgerDecision,
    });
  }
}

/** Records the programs `make 1`, `make 2` …. */
function writePrograms(ledger: Ledger): void {
  for (let at = 1; at <= PROGRAMS; at++) {
    const event = execEvent(`make ${at}`);
    Object.assign(event.common, { session_id: BUILT, event_id: newEventId() });
    ledger.append({ event });
  }
}

Deno.test("the record of a VM on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({
    past: [
      { id: PAST, name: "gone", write: (ledger) => writeRequests(ledger, PAST, EVENTS) },
      { id: BUILT, name: "built", write: writePrograms },
    ],
  });
  const { desktop } = home;
  const { page } = desktop;
  const list = page.getByRole("listbox", { name: "Events" });
  const request = (host: string) => home.gate.decide(http(host));

  await t.step(
    "a past session opens, its newest event first, and says that there are older ones",
    async () => {
      await desktop.open("sessions");
      await page.getByRole("link", { name: "gone" }).click();
      await page.getByRole("heading", { name: "gone" }).waitFor();
      await list.getByRole("option", { name: "host2500.example" }).waitFor();
      assertEquals(
        await list.getByRole("option").first().innerText().then((text) => /host2500/.test(text)),
        true,
      );
      await page.getByText("The newest 1,000 events; scroll down for older ones").waitFor();
      assertEquals(await page.title(), "gone · Timeline – sbx");
      await shoot(desktop, "timeline_of_a_past_session");
      assertEquals(await desktop.violations(), []);
    },
  );

  await t.step("scrolling reads older events, to the first one", async () => {
    const end = "element.scrollTop = element.scrollHeight";
    for (const text of ["The newest 2,000 events", "2,500 events"]) {
      await list.evaluate(new Function("element", end) as never);
      await page.getByText(text).waitFor();
    }
    await list.evaluate(new Function("element", end) as never);
    await list.getByRole("option", { name: "host1.example" }).waitFor();
  });

  await t.step(
    "the newest programs are there at once, and older ones on demand, to the first one",
    async () => {
      const program = (at: number) => page.getByRole("rowheader", { name: `make ${at}`, exact: true });
      await desktop.open("session", BUILT, "programs");
      await program(PROGRAMS).waitFor();
      assertEquals(await page.getByRole("rowheader").count(), 60);
      assertEquals(await desktop.violations(), []);
      for (const count of [260, 460, 660, 860, 1060]) {
        await page.getByRole("button", { name: "Show older ones" }).click();
        await page.getByText(`The newest ${count.toLocaleString("en")} programs`).waitFor();
      }
      await page.getByRole("button", { name: "Show older ones" }).click();
      await program(1).waitFor();
      assertEquals(await page.getByRole("rowheader").count(), PROGRAMS);
      assertEquals(await page.getByRole("button", { name: "Show older ones" }).count(), 0);
      await desktop.open("session", PAST, "timeline");
    },
  );

  await t.step("its record is verified, and saved event by event", async () => {
    const verify = page.getByRole("button", { name: "Verify" });
    await verify.click();
    await page.getByText("Valid: 2,500 events as recorded.").waitFor();
    assertEquals(await desktop.violations(), []);
    const ledger = join(home.home.dir, "ledgers", PAST, "session.db");
    const witnessed: LedgerWitness = {
      schema: "sbx.ledger-witness.v1",
      session_id: PAST,
      at: new Date().toISOString(),
      heads: await readHeads(ledger),
    };
    await Deno.mkdir(witnessFolder(home.home), { recursive: true });
    await Deno.writeTextFile(witnessPath(home.home, PAST), JSON.stringify(witnessed));
    await verify.click();
    await page.getByText("The service has witnessed it up to event 2,500.").waitFor();
    await Deno.rename(`${ledger}.seal`, `${ledger}.seal.kept`);
    await verify.click();
    await page.getByText("it is proven up to event 2,500, which the service has witnessed.").waitFor();
    await Deno.rename(`${ledger}.seal.kept`, `${ledger}.seal`);
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export events" }).click(),
    ]);
    assertEquals(file.suggestedFilename(), `gone-${PAST.slice(0, 8)}.jsonl`);
    const lines = (await Deno.readTextFile(await file.path())).trimEnd().split("\n");
    assertEquals(lines.length, EVENTS);
    assertEquals(JSON.parse(lines[0]).http.request.host, "host1.example");
    const [certificate] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Certificate" }).click(),
    ]);
    assertEquals(certificate.suggestedFilename(), `gone-${PAST.slice(0, 8)}.cert.json`);
    const key = await readMachineKey(home.home);
    const envelope = await Deno.readFile(await certificate.path());
    const verified = await verifyCertificate(envelope, [key!], "the certificate");
    assertEquals(verified.certificate.predicate.session_id, PAST);
  });

  await t.step("the page's first load is at most 150 KB, as it is sent", async () => {
    const sizes: Promise<number>[] = [];
    page.on("requestfinished", (request) => {
      if (request.url().includes("/desktop/")) {
        sizes.push(request.sizes().then((each) => each.responseBodySize));
      }
    });
    const [script] = await Promise.all([page.waitForResponse(/main\.js$/), page.reload()]);
    await list.getByRole("option").first().waitFor();
    assertEquals(await script.headerValue("content-encoding"), "br");
    const sum = (await Promise.all(sizes)).reduce((all, each) => all + each, 0);
    assert(sum > 10_000 && sum <= 150_000, `${sum} bytes`);
  });

  await t.step("filters and the chosen event are in the address, and a reload keeps them", async () => {
    await page.getByLabel("Decision").selectOption("block");
    await page.getByText("5 events").waitFor();
    await list.getByRole("option", { name: "host1500.example" }).click();
    await page.getByRole("region", { name: "Why" }).getByText("host1500.example").first().waitFor();
    await page.waitForURL(/decision=block&event=[0-9a-f]{12}$/);
    await page.reload();
    await page.getByText("5 events").waitFor();
    await page.getByRole("region", { name: "Why" }).getByText("host1500.example").first().waitFor();
    assertEquals(await page.getByLabel("Decision").inputValue(), "block");
  });

  await t.step("the reason is in words, and leads to the rule; all fields are folded", async () => {
    await page.getByRole("heading", { name: "Blocked by your rule my-rule" }).waitFor();
    await page.getByText("a rule of mine").waitFor();
    const link = await page.getByRole("link", { name: "Edit rule" }).getAttribute("href");
    assertEquals(link, "#/rules?profile=code&rule=my-rule");
  });

  await t.step("a part of the histogram becomes the span of the list, in the address", async () => {
    await page.getByLabel("Decision").selectOption("");
    const plot = page.locator(".histogram .plot");
    await page.getByRole("img", { name: "2500 events over time, 5 blocked" }).waitFor();
    const box = (await plot.boundingBox())!;
    await page.mouse.move(box.x + 2, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 10, box.y + 20);
    await page.mouse.up();
    await page.waitForURL(/since=\d+&until=\d+/);
    await page.getByRole("status").getByText(/^2\d\d events$/).waitFor();
    assertEquals(await desktop.violations(), []);
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByText("The newest 1,000 events").waitFor();
  });

  await t.step("events arrive on top and move nothing under the eyes of a reader", async () => {
    for (let at = 1; at <= 60; at++) await request(`early${at}.example`);
    await desktop.open("vm", "dev");
    await list.getByRole("option", { name: "early60.example" }).waitFor();
    await request("live.example");
    await list.getByRole("option", { name: "live.example" }).waitFor();
    await list.evaluate(new Function("element", "element.scrollTop = 560") as never);
    const row = list.getByRole("option", { name: "early30.example" });
    await row.waitFor();
    const before = await row.boundingBox();
    await request("later.example");
    await page.getByText("62 events").waitFor();
    await desktop.settled();
    assertEquals((await row.boundingBox())?.y, before?.y);
  });

  await t.step(
    "the overview counts the last hour of a VM, follows it live, and leads to its last event",
    async () => {
      const asked: string[] = [];
      page.on("request", (request) => asked.push(new URL(request.url()).pathname));
      await desktop.open("overview");
      const row = page.getByRole("row", { name: /^dev/ });
      await row.getByRole("img", { name: "62 events in the last hour, 0 blocked, 0 asked about" }).waitFor();
      await row.getByRole("link", { name: /later\.example/ }).waitFor();
      await page.getByRole("listitem").filter({ hasText: "Blocked today" }).getByText(/^of \d+ events$/)
        .waitFor();
      await page.getByText("You're all caught up.").waitFor();
      await request("counted.example");
      await row.getByRole("img", { name: /^63 events/ }).waitFor();
      assertEquals(await page.title(), "Overview – sbx");
      assertEquals(await desktop.violations(), []);
      // One request for all VMs, however many there are.
      assertEquals(asked.filter((path) => path === "/sessions/overview").length, 1);
      assertEquals(asked.filter((path) => path.includes(home.id)), []);
      await shoot(desktop, "overview");
      await row.getByRole("link", { name: /counted\.example/ }).click();
      await page.waitForURL(/#\/vm\/dev\/timeline\?event=[0-9a-f]{12}$/);
      await page.getByRole("region", { name: "Why" }).getByText("counted.example").first().waitFor();
    },
  );

  await t.step(
    "one search over all sessions: its words are in the address, and it leads to an event",
    async () => {
      await desktop.open("search");
      await page.getByLabel("Host, path, program").fill("live.example");
      await page.keyboard.press("Enter");
      await page.waitForURL(/#\/search\?q=live\.example$/);
      await page.getByText("1 event in 1 VM").waitFor();
      await page.getByRole("img", { name: "1 events over time, 0 blocked" }).waitFor();
      assertEquals(await desktop.violations(), []);
      await page.reload();
      await page.getByRole("region", { name: "Events of dev" }).getByRole("link", { name: /live\.example/ })
        .click();
      await page.getByRole("region", { name: "Why" }).getByText("live.example").first().waitFor();
      await desktop.open("search?q=nothing-has-this");
      await page.getByText("No event in this time matches.").waitFor();
      await desktop.open("vm", "dev", "timeline");
    },
  );

  await t.step("events of an outage are there once the service is back", async () => {
    await desktop.open("vm", "dev", "findings");
    await desktop.open("vm", "dev", "timeline");
    await list.getByRole("option", { name: "counted.example" }).waitFor();
    await home.stopService();
    await page.getByText("sbx isn't running").waitFor();
    // A view that is opened meanwhile fills itself too.
    await desktop.open("vm", "dev", "requests");
    await request("meanwhile.example");
    await home.ledger.flush();
    await home.startService();
    await list.getByRole("option", { name: "meanwhile.example" }).waitFor();
    await desktop.open("vm", "dev", "timeline");
    await list.getByRole("option", { name: "meanwhile.example" }).waitFor();
    await page.getByText("64 events").waitFor();
    await request("after.example");
    await list.getByRole("option", { name: "after.example" }).waitFor();
  });

  await t.step("the costs of today follow the calls of models", async () => {
    await desktop.open("overview");
    const cost = page.getByRole("listitem").filter({ hasText: "Cost today" });
    await cost.getByText("0 calls").waitFor();
    const request = {
      provider: "anthropic",
      api_family: "messages",
      model: "claude-sonnet-4-5",
      stream: false,
    };
    const { event: { common: { event_id } } } = await home.gate.decide(
      {
        common: { event_type: "model.call", source_engine: "network" },
        model: { request: { ...request, operation: "chat" } },
      } as Parameters<typeof home.gate.decide>[0],
    );
    const response = { status: 200, input_tokens: 9, output_tokens: 9, estimated_cost_micros: 420_000 };
    home.ledger.end({ event_id, response, duration_ms: 1 } as Parameters<Ledger["end"]>[0]);
    await cost.getByText("$0.42").waitFor();
    await cost.getByText("1 call", { exact: true }).waitFor();
  });

  await t.step("an address that leads nowhere says so, and shows the way", async () => {
    for (const [kind, name] of [["vm", "There is no VM away."], ["session", "There is no session away."]]) {
      await desktop.open(kind, "away", "timeline");
      await page.getByRole("heading", { name }).waitFor();
      assertEquals(await desktop.violations(), []);
      await page.getByRole("link", { name: "All VMs and past sessions" }).click();
      await page.waitForURL(/#\/sessions$/);
    }
  });

  assertEquals(desktop.problems, []);
  assert(desktop.origins.size === 1);
});
