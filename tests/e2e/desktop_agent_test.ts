/** From a tile of the page Agents to the work on the person's branch, by clicks that are counted. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { DesktopBrowser } from "../helper/browser.ts";
import { eachView } from "../helper/desktop_views.ts";
import { git, sh } from "../helper/repository.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

const AGENT = `
[agent]
command = ["sh"]
headless = ["sh", "-c", "echo $0 >result", "{prompt}"]
`;

/** Clicks of a person from the page to the work that is taken. */
const CLICKS_MAX = 6;

Deno.test("an agent is started from the page, and its work taken, in each view", async () => {
  const sbx = await Sbx.make({ spare: false });
  const folder = await Deno.makeTempDir();
  await using desktop = await DesktopBrowser.launch();
  try {
    await sbx.ok("profile", "copy", "code", "writer");
    const profile = join(sbx.home, "profiles/writer/profile.toml");
    await Deno.writeTextFile(profile, await Deno.readTextFile(profile) + AGENT);
    await desktop.signIn(sbx);
    const { page } = desktop;
    await page.evaluate("addEventListener('click', () => globalThis.clicks++, true)");

    await eachView(desktop, async (at, look) => {
      const [site, vm] = [`site${at}`, `writer-site${at}`];
      const repo = join(folder, site);
      await Deno.mkdir(repo);
      await sh(repo, "git init -q -b main; echo one >a.txt; git add -A; git commit -qm first");
      await desktop.open("agents");
      await page.evaluate("globalThis.clicks = 0");

      await page.getByRole("button", { name: /writer/ }).click();
      await page.keyboard.type(`${folder}/`);
      await page.getByRole("option", { name: new RegExp(site) }).click();
      await page.keyboard.press("Tab");
      await page.keyboard.type("written by the agent");
      await look("agent_form");
      await page.getByRole("button", { name: "Start", exact: true }).click();
      await page.getByRole("article").getByText(/booting|starting|files/i).or(page.getByRole("progressbar"))
        .first()
        .waitFor();
      // A machine under load takes its time to boot one.
      await page.waitForURL(new RegExp(`#/vm/${vm}/timeline`), { timeout: 0 });
      await eventually("the agent has written", async () => {
        const { jobs } = (await sbx.api("GET", `/vms/${vm}/jobs`)).body;
        return jobs.length === 1 && jobs[0].state === "Ended" && jobs[0].exit_code === 0;
      });
      await page.getByRole("link", { name: "Work", exact: true }).click();
      await page.getByRole("button", { name: "Take all" }).click();
      await page.getByText(new RegExp(`one commit on the branch sbx/${vm}`)).waitFor();
      await look("agent_taken");
      assertEquals(await git(repo, "show", `sbx/${vm}:result`), "written by the agent");
      const clicks = Number(await page.evaluate("globalThis.clicks"));
      assertEquals(clicks <= CLICKS_MAX, true, `${clicks} clicks`);

      await desktop.open("agents");
      await page.getByRole("row", { name: new RegExp(vm) }).getByText("Running").waitFor();
      await sbx.ok("stop", vm);
    });
    assertEquals(desktop.problems, []);
  } finally {
    await sbx.dispose();
    await Deno.remove(folder, { recursive: true });
  }
});
