/** Agents on the desktop page: chosen by tile, their folder completed, their key checked in place. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { Home } from "../../lib/base/home/mod.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { prepareImage } from "../helper/desktop_image.ts";
import { checkViews } from "../helper/desktop_views.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

const SECRET = `sk-ant-api03-${"d".repeat(93)}AA`;

/** Two agents of one name, without a key, one of them with an image. */
async function prepare(home: Home): Promise<void> {
  await prepareImage(home);
  for (const id of ["usable", "zzz"]) {
    await Deno.writeTextFile(
      join(home.profilesDir, id, "profile.toml"),
      `\n[agent]\ncommand = ["sh"]\nheadless = ["sh", "-c", "{prompt}"]\n`,
      { append: true },
    );
  }
}

Deno.test("agents on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({ prepare });
  const { desktop } = home;
  const { page } = desktop;
  const tiles = page.getByRole("group", { name: "Agent" });
  const form = page.getByRole("form");
  const project = join(home.dir, "projects", "site");
  await Deno.mkdir(join(project, ".git"), { recursive: true });
  await Deno.mkdir(join(home.dir, "projects", "notes"));

  await t.step("tiles say what is ready, and two agents of one name are told apart", async () => {
    await desktop.open("agents");
    await tiles.getByRole("button", { name: /^Claude Code/ }).waitFor();
    const twins = tiles.getByRole("button", { name: /^Twin/ });
    assertEquals(await twins.count(), 2);
    await twins.filter({ hasText: "usable" }).getByText("ready", { exact: true }).waitFor();
    await twins.filter({ hasText: "zzz" }).getByText("no image yet").waitFor();
    await tiles.getByRole("button", { name: /^Claude Code/ }).getByText("needs a key").waitFor();
    await page.getByText("No agent has a VM yet").waitFor();
    assertEquals(await page.title(), "Agents – sbx");
    await checkViews(desktop, "agents");
  });

  await t.step("nothing is started before the keys are known", async () => {
    const held = Promise.withResolvers<void>();
    await page.route("**/credentials/list*", async (route) => {
      await held.promise;
      // The page that asked may be gone.
      await route.continue().catch(() => {});
    });
    await desktop.open("agents");
    await page.reload();
    await tiles.getByRole("button", { name: /^Claude Code/ }).click();
    const start = form.getByRole("button", { name: "Start" });
    await start.waitFor();
    assertEquals(await start.isDisabled(), true);
    await tiles.getByRole("button", { name: /^Twin.*usable/s }).click();
    await form.getByText("This agent needs no key").waitFor();
    assertEquals(await start.isDisabled(), false);
    held.resolve();
    await tiles.getByRole("button", { name: /^Claude Code/ }).getByText("needs a key").waitFor();
  });

  await t.step("the key is added in place, and the tile has it", async () => {
    await tiles.getByRole("button", { name: /^Claude Code/ }).click();
    await page.waitForURL(/agent=claude$/);
    assertEquals(await form.getByRole("button", { name: "Start" }).isDisabled(), true);
    await form.getByText(/needs a key of Anthropic/).waitFor();
    await form.getByRole("button", { name: "Log in with a subscription" }).waitFor();
    await checkViews(desktop, "agents_key");
    await form.getByRole("button", { name: "Add a key" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Label (optional)").fill("work");
    await dialog.getByLabel("Secret", { exact: true }).fill(SECRET);
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await form.getByLabel("Key").waitFor();
    assertEquals(await form.getByLabel("Key").innerText(), "Uses work");
    await form.getByText("Its image is built first").waitFor();
  });

  await t.step("a folder is completed by keys, and a repository is marked", async () => {
    await tiles.getByRole("button", { name: /^Twin.*usable/s }).click();
    await form.getByText("This agent needs no key").waitFor();
    const folder = form.getByRole("combobox", { name: "Folder" });
    assertEquals(await page.evaluate("document.activeElement.id"), "start-folder");
    await folder.fill(`${home.dir}/projects/`);
    const found = form.getByRole("option");
    await found.filter({ hasText: "git repository" }).waitFor();
    assertEquals(await found.count(), 2);
    await checkViews(desktop, "agents_folder");
    await folder.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    assertEquals(await folder.inputValue(), project);
    assertEquals(await form.getByRole("listbox").count(), 0);
  });

  await t.step("a folder that is not there is said at its field, before anything starts", async () => {
    const folder = form.getByRole("combobox", { name: "Folder" });
    await folder.fill("");
    await form.getByRole("button", { name: "Start" }).click();
    await form.getByText(/Choose the folder/).waitFor();
    await folder.fill(`${home.dir}/nowhere`);
    await form.getByRole("button", { name: "Start" }).click();
    await form.getByText(/there is no folder/).waitFor();
    assertEquals(await folder.getAttribute("aria-invalid"), "true");
    assertEquals((await home.withClient((client) => client.json<{ tasks: [] }>("GET", "/tasks"))).tasks, []);
    await checkViews(desktop, "agents_refused");
  });

  await t.step("an empty VM is a tile too", async () => {
    await tiles.getByRole("button", { name: /^Empty VM/ }).click();
    await page.getByRole("dialog", { name: "New VM" }).waitFor();
    await page.keyboard.press("Escape");
  });
  assertEquals(desktop.problems, []);
});
