/** Views of one VM: hosts, conversation, files, programs, logs and ports; typed words stay. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Locator } from "playwright-core";
import { makeDay } from "../helper/desktop_day.ts";
import { eachView } from "../helper/desktop_views.ts";
import { http } from "../helper/session_gate.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
/** Hosts that are blocked, one for each view. */
const HOSTS = ["first.example", "second.example", "third.example", "fourth.example"];

Deno.test("views of a VM on the desktop page", options, async (t) => {
  await using home = await makeDay();
  const { desktop } = home;
  const { page } = desktop;
  const dialog = page.getByRole("dialog");
  const list = page.getByRole("listbox", { name: "Events" });
  for (const host of HOSTS) await home.gate.decide(http(host));
  await home.ledger.flush();

  await t.step(
    "from a request to a rule that blocks its host: three clicks, in each view",
    () =>
      eachView(desktop, async (at) => {
        await desktop.open("vm", "dev", "requests");
        let clicks = 0;
        const click = async (target: Locator) => {
          await target.click();
          clicks++;
        };
        await click(list.getByRole("option", { name: HOSTS[at] }));
        await click(page.getByRole("button", { name: "Block this host" }));
        await dialog.getByText("No problems.").waitFor();
        assertEquals(await desktop.violations(), []);
        await click(dialog.getByRole("button", { name: "Save rule" }));
        await dialog.waitFor({ state: "detached" });
        const saved = await Deno.readTextFile(join(home.home.dir, "rules/code.toml"));
        const id = `block-${HOSTS[at].replace(".", "-")}`;
        assertStringIncludes(saved, `[profiles.rules.${id}]\naction = "block"`);
        assertEquals(clicks, 3);
      }),
  );

  await t.step(
    "programs and their hosts: a click shows one host's requests, in the address too",
    async () => {
      const hosts = page.getByRole("region", { name: "Programs and the hosts that they reach" });
      await hosts.getByRole("button", { name: /^node → registry\.npmjs\.org 3\.\d kB 52$/ }).waitFor();
      await hosts.getByRole("button", { name: /paste\.example 0 B 3, 3 blocked/ }).click();
      await page.waitForURL(/\?.*q=paste\.example/);
      await page.getByText("3 events").waitFor();
      await list.getByRole("option", { name: /×3 .*paste\.example/ }).waitFor();
      await hosts.getByRole("button", { name: /paste\.example/ }).click();
      await page.getByText("60 events").waitFor();
      await list.getByRole("option", { name: /registry\.npmjs\.org\/vite node 200 62 B 76 ms/ }).first()
        .waitFor();
    },
  );

  await t.step(
    "only the hosts that were reached: the rule is there to be read, and is not saved yet",
    async () => {
      await page.getByRole("button", { name: "Allow only these" }).click();
      const match = await dialog.getByLabel(/^Match/).innerText();
      assertStringIncludes(match, '!(http.request.host in ["deploy.example","first.example",');
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    },
  );

  await t.step("words that are being written stay when events come", async () => {
    const search = page.getByLabel("Search events");
    await search.fill("regis");
    await home.gate.decide(http("meanwhile.example"));
    await list.getByRole("option", { name: "meanwhile.example" }).waitFor();
    assertEquals(await search.inputValue(), "regis");
    await search.press("Enter");
    await page.waitForURL(/q=regis/);
    await list.getByRole("option", { name: "meanwhile.example" }).waitFor({ state: "detached" });
  });

  await t.step(
    "prompts, tool calls and results are one conversation, one kind of it by the address",
    async () => {
      await desktop.open("vm", "dev", "calls");
      const calls = page.getByRole("group", { name: "Calls in order" }).getByRole("listitem");
      const newest = page.getByRole("listitem", { name: "anthropic claude-sonnet-4-5" }).last();
      await newest.locator(".spoken").getByText("Run the tests of the login page.").waitFor();
      await newest.getByText("12,800 in (2,000 cached), 450 out · $0.0248").waitFor();
      await newest.getByRole("list", { name: "Wants to call" }).getByText('command: "npm test -- login"')
        .waitFor();
      await page.getByText("28 calls").waitFor();
      await page.getByRole("group", { name: "Calls of" }).getByRole("button", { name: "Tools" }).click();
      await page.waitForURL(/kind=mcp/);
      await page.getByText("14 calls").waitFor();
      await page.reload();
      await page.getByText("14 calls").waitFor();
      // A call that is made meanwhile joins them.
      await home.gate.decide({
        common: { event_type: "mcp.tool_call", source_engine: "mcp" },
        mcp: {
          request: {
            ...{ method: "tools/call", server_name: "files", tool_name: "list" },
            ...{ namespaced_tool_name: "files__list", arguments: { path: "src" } },
          },
        },
      });
      await home.ledger.flush();
      await page.getByRole("listitem", { name: "files__list" }).getByText('path: "src"').waitFor();
      assertEquals(await calls.last().getAttribute("aria-label"), "files__list");
    },
  );

  await t.step("a folder that was left does not come back with its late answer", async () => {
    await desktop.open("vm", "dev", "files");
    const held = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    await page.route(/files\/list\?.*path=src/, async (route) => {
      await held.promise;
      await route.continue();
      answered.resolve();
    });
    await page.getByRole("button", { name: "src/" }).click();
    await page.getByRole("button", { name: "/workspace" }).click();
    await page.getByRole("button", { name: "package.json" }).waitFor();
    held.resolve();
    await answered.promise;
    await desktop.settled();
    await page.getByRole("button", { name: "package.json" }).click();
    await page.getByLabel("Content of package.json").getByText('"name": "shop"').waitFor();
    await page.getByRole("button", { name: "src/" }).click();
    await page.getByRole("button", { name: "login.tsx" }).waitFor();
    await page.unrouteAll();
  });

  await t.step("a program is found by its words, and leads to its event", async () => {
    await desktop.open("vm", "dev", "programs");
    await page.getByLabel("Find a program").fill("claude");
    const rows = page.getByRole("table", { name: "Programs" }).getByRole("rowheader");
    await rows.getByText("claude --print").waitFor();
    assertEquals(await rows.count(), 1);
    await rows.getByRole("link").click();
    await page.getByRole("region", { name: "Why" }).getByText("exec claude --print").waitFor();
  });

  await t.step("a log shows the lines with some words", async () => {
    await desktop.open("vm", "dev", "logs");
    const log = page.locator("pre.log");
    await log.getByText("Linux version").first().waitFor();
    await page.getByLabel("Find in the log").fill("ext4");
    await page.getByText("13 of 40 lines").waitFor();
    assertEquals((await log.innerText()).includes("Linux version"), false);
    await page.getByLabel("Find in the log").fill("nothing has this");
    await page.getByText("No line has this.").waitFor();
  });

  await t.step("a port has its address here, which opens in a tab of its own", async () => {
    await desktop.open("vm", "dev", "ports");
    const link = page.getByRole("link", { name: "127.0.0.1:41873" });
    await link.waitFor();
    assertEquals(await link.getAttribute("href"), "http://127.0.0.1:41873/");
    assertEquals(await link.getAttribute("rel"), "noopener noreferrer");
  });

  assertEquals(desktop.problems, []);
});
