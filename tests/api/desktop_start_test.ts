/** From a new VM on the desktop page to the work that is taken from it. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { Home } from "../../lib/base/home/mod.ts";
import { shoot } from "../helper/browser.ts";
import { DesktopHome, type Served } from "../helper/desktop_home.ts";
import { prepareImage } from "../helper/desktop_image.ts";
import { runInGuest } from "../helper/repository_vm.ts";
import { CORP, settingsSteps } from "./desktop_settings.ts";
import { EchoTerminals, terminalSteps } from "./desktop_terminal.ts";
import { workSteps } from "./desktop_work.ts";

/** Programs of the VM run on this machine. */
const PROGRAMS: Served = {
  Exec: ({ argv }, caller, { paths }) => runInGuest(argv, paths.workspace, caller),
  DecideFile: (_, caller) => caller.reply({ t: "FileDecided", event_id: "0123456789ab" }),
};

const options = { sanitizeResources: false, sanitizeOps: false };

async function prepare(home: Home): Promise<void> {
  await Deno.writeTextFile(join(home.dir, "../corp.toml"), CORP);
  await prepareImage(home);
}

Deno.test("a new VM on the desktop page", options, async (t) => {
  const terminals = new EchoTerminals();
  await using home = await DesktopHome.make({ prepare, serve: { ...PROGRAMS, ...terminals.served } });
  const { desktop } = home;
  const { page } = desktop;
  const dialog = page.getByRole("dialog");

  await t.step("a profile that can boot is chosen, and others say what they lack", async () => {
    await page.getByRole("button", { name: "New VM" }).click();
    const profile = dialog.getByLabel("Profile");
    await profile.waitFor();
    assertEquals(await profile.inputValue(), "usable");
    const labels = await profile.locator("option").allInnerTexts();
    assertEquals(labels.filter((label) => label.startsWith("Twin")), [
      "Twin (usable)",
      "Twin (zzz) (no image yet)",
    ]);
    assertEquals(await dialog.getByText("has no image to boot").count(), 0);
    await profile.selectOption("zzz");
    await dialog.getByText("sbx image build zzz").waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "new_vm");
  });

  await t.step("a copy of a folder gives the command that makes it, and makes no empty VM", async () => {
    await dialog.getByLabel("Workspace").selectOption("copy");
    await dialog.getByText("sbx create --from-dir .").waitFor();
    assertEquals(await dialog.getByRole("button", { name: "Create", exact: true }).count(), 0);
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "detached" });
  });

  await t.step("of several keys of a provider the VM's is chosen", async () => {
    for (const label of ["work", "home"]) {
      const key = { provider: "anthropic", secret: `sk-ant-api03-${label.padEnd(93, "q")}AA`, label };
      const added = await home.ask("POST", "/credentials/add", key);
      assertEquals(added.status, 200, await added.text());
    }
    await page.getByRole("button", { name: "New VM" }).click();
    await dialog.getByLabel("Key of anthropic").selectOption("work");
    await dialog.getByLabel("Name (optional)").fill("keyed");
    const [sent] = await Promise.all([
      page.waitForRequest(/\/vms\/create$/),
      dialog.getByRole("button", { name: "Create", exact: true }).click(),
    ]);
    assertEquals(sent.postDataJSON().credentials, { anthropic: "work" });
    // Its image is no image: the refusal is in the dialog, and the draft is kept.
    await dialog.getByRole("alert").waitFor();
    assertEquals(await dialog.getByLabel("Name (optional)").inputValue(), "keyed");
  });

  await settingsSteps(t, home);
  await workSteps(t, home);
  await terminalSteps(t, home, terminals);

  assertEquals(desktop.problems, []);
});
