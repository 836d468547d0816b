/**
 * Detections on the desktop page: rules of packs switched with a reason, Sigma YAML hunted
 * with in every session, overlays.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Home } from "../../lib/base/home/mod.ts";
import type { Ledger } from "../../lib/ledger/mod.ts";
import { type Event, newEventId } from "../../lib/event/mod.ts";
import { shoot } from "../helper/browser.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { eventCommon, httpRequest } from "../helper/event.ts";
import { http } from "../helper/session_gate.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const PAST = "00000000-0000-4000-8000-00000000000b";
const HOST = "sought.example";

const sigma = (title: string, id: string, level: string) =>
  `title: ${title}
id: ${id}
logsource: { category: proxy }
detection:
  sel: { cs-host: ${HOST} }
  condition: sel
level: ${level}
`;

/** A file of two rules, as a person puts it into a home. */
async function prepare(home: Home): Promise<void> {
  const dir = join(home.dir, "detection/packs");
  await Deno.mkdir(dir, { recursive: true });
  const one = sigma("Our <b>paste</b> site", "00000000-0000-4000-8000-0000000000c1", "high");
  const two = sigma("Another rule", "00000000-0000-4000-8000-0000000000c2", "low");
  await Deno.writeTextFile(join(dir, "team.yml"), `${one}---\n${two}`);
}

function writeRequest(ledger: Ledger): void {
  const event_id = newEventId();
  const common = eventCommon("http.request", { session_id: PAST, event_id });
  const event = { schema_version: 1, common, http: { request: httpRequest({ host: HOST }) } };
  ledger.append({
    event: event as unknown as Event,
    decision: {
      event_id,
      decision: "allow",
      rule: { id: "allow-http", name: "", layer: "default" },
      matched_fields: [],
      rewrites: [],
      evaluated: 1,
      near_misses: [],
    } as unknown as Parameters<Ledger["append"]>[0]["decision"],
    findings: [],
  });
}

Deno.test("detections on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({
    prepare,
    past: [{ id: PAST, name: "gone", write: writeRequest }],
  });
  const { desktop } = home;
  const { page } = desktop;
  const dialog = page.getByRole("dialog");
  const row = (name: string | RegExp) => page.getByRole("row", { name });
  const disabled = () => Deno.readTextFile(join(home.home.dir, "detection/disabled.toml"));
  await home.gate.decide(http(HOST));
  await home.ledger.flush();

  await t.step("a rule of a pack is switched off with a reason, and on again", async () => {
    await desktop.open("detections");
    const paste = row(/Our <b>paste<\/b> site/);
    await paste.getByText("high").waitFor();
    await paste.getByRole("switch").click();
    await dialog.getByRole("button", { name: "Switch off" }).click();
    // Without a reason the browser asks for it, and nothing is sent.
    assertEquals(
      await dialog.getByLabel("Reason").evaluate(
        new Function("field", "return field.validity.valid") as never,
      ),
      false,
    );
    await dialog.getByLabel("Reason").fill("our own site");
    assertEquals(await desktop.violations(), []);
    await dialog.getByRole("button", { name: "Switch off" }).click();
    await paste.getByText(/^our own site \(.+, .+\)$/).waitFor();
    assertEquals(await paste.getByRole("switch").isChecked(), false);
    assertStringIncludes(await disabled(), 'reason = "our own site"');
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "detections_off");
    await page.getByRole("region", { name: "Changes" }).getByText("our own site").first().waitFor();
    await paste.getByRole("switch").click();
    await paste.getByText("our own site").waitFor({ state: "detached" });
    assertEquals(await paste.getByRole("switch").isChecked(), true);
    assertEquals((await disabled()).includes("our own site"), false);
  });

  await t.step("rules are found by words and state, which the address has", async () => {
    await row(/Another rule/).waitFor();
    await page.getByLabel("Search detections").fill("paste");
    await row(/Another rule/).waitFor({ state: "detached" });
    await page.waitForURL(/q=paste/);
    await page.getByLabel("State").selectOption("off");
    await page.getByText("No detection matches.").waitFor();
    await page.waitForURL(/state=off/);
    await page.getByLabel("State").selectOption("all");
    await page.getByLabel("Search detections").fill("");
    await row(/Another rule/).waitFor();
  });

  await t.step("Sigma as YAML is checked, and hunted with in every session", async () => {
    const source = page.getByLabel("The detection, as Sigma YAML or JSON");
    const said = page.getByRole("region", { name: "Try a detection" }).getByRole("status");
    await source.fill("title: Broken\nlogsource: { category: proxy }\ndetection: { condition: sel }\n");
    await page.getByRole("button", { name: "Check" }).click();
    await said.getByText(/sel/).waitFor();
    await source.fill("{");
    await page.getByRole("button", { name: "Check" }).click();
    await said.getByText("The detection is not JSON.").waitFor();
    await source.fill(sigma("Sought", "00000000-0000-4000-8000-0000000000c3", "medium"));
    await page.getByRole("button", { name: "Check" }).click();
    await said.getByText("No problems.").waitFor();
    await page.getByLabel("Session to search").selectOption("all");
    await page.getByRole("button", { name: "Hunt" }).click();
    await said.getByText("2 matches in 2 sessions").waitFor();
    await row(new RegExp(`gone .*${HOST}`)).waitFor();
    const found = row(new RegExp(`dev .*${HOST}`));
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "detections_hunt");
    await found.getByRole("link").click();
    await page.waitForURL(/#\/vm\/dev\/timeline\?event=/);
    await desktop.open("detections");
  });

  await t.step("it is turned on, off, and removed after a question", async () => {
    const source = page.getByLabel("The detection, as Sigma YAML or JSON");
    await source.fill(sigma("Sought", "00000000-0000-4000-8000-0000000000c3", "medium"));
    await page.getByRole("button", { name: "Turn on", exact: true }).click();
    const scopes = async () =>
      (await home.withClient((client) =>
        client.json<{ rules: { scope: string; enabled: boolean }[] }>("GET", "/detection")
      )).rules.filter(({ scope }) => scope === "runtime").map(({ enabled }) => enabled);
    await page.getByRole("button", { name: "Turn off sought" }).click();
    await page.getByRole("button", { name: "Turn on sought" }).waitFor();
    assertEquals(await scopes(), [false]);
    await page.getByRole("button", { name: "Turn on sought" }).click();
    await page.getByRole("button", { name: "Turn off sought" }).waitFor();
    assertEquals(await scopes(), [true]);
    const remove = async () => {
      await page.getByRole("button", { name: "More for sought" }).click();
      await page.getByRole("menuitem", { name: "Remove sought" }).click();
    };
    await remove();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    assertEquals(await scopes(), [true]);
    await remove();
    await dialog.getByRole("button", { name: "Remove sought" }).click();
    await page.getByRole("button", { name: "More for sought" }).waitFor({ state: "detached" });
    assertEquals(await scopes(), []);
  });

  assertEquals(desktop.problems, []);
});
