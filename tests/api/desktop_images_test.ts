/** Images on the desktop page: what each profile boots, its build with progress, and its removal. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { DesktopHome } from "../helper/desktop_home.ts";
import { checkViews } from "../helper/desktop_views.ts";
import { prepareImage } from "../helper/desktop_image.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test("images on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({ prepare: prepareImage });
  const { desktop } = home;
  const { page } = desktop;
  const table = page.getByRole("table", { name: "Images of profiles" });
  const row = (profile: string) => table.locator("tr", { has: page.locator(`p:text-is("${profile}")`) });

  await t.step("each profile has its image with base, age and size, or says that it has none", async () => {
    await desktop.open("images");
    await row("code").getByText("no image").waitFor();
    await row("usable").getByText("files that the profile names").waitFor();
    await row("usable").getByRole("time").or(row("usable").locator("time")).first().waitFor();
    assertEquals(await page.title(), "Images – sbx");
    // Two profiles of one name are told apart.
    assertEquals(await table.getByText("Twin", { exact: false }).count() >= 2, true);
    assertEquals(await row("zzz").count(), 1);
    await checkViews(desktop, "images");
  });

  await t.step("the address has the search and the choice", async () => {
    await page.getByRole("button", { name: "Without" }).click();
    await page.getByLabel("Find a profile").fill("claude");
    await page.waitForURL(/show=missing/);
    await page.waitForURL(/q=claude/);
    await page.reload();
    await row("claude").waitFor();
    assertEquals(await table.locator("tbody tr").count(), 1);
  });

  await t.step("a build shows its stage, and is cancelled without a trace", async () => {
    await page.getByRole("button", { name: "Build the image of claude" }).click();
    const task = page.getByRole("article", { name: "Image of claude" });
    await task.getByText(/guest programs/).waitFor();
    assertEquals(await task.getByRole("progressbar").count(), 1);
    assertEquals(await row("claude").getByRole("button", { name: /^Build/ }).isDisabled(), true);
    await checkViews(desktop, "images_build");
    await task.getByRole("button", { name: "Cancel" }).click();
    await task.getByText("cancelled").waitFor();
    await task.getByRole("button", { name: /^Dismiss/ }).click();
    // At once, though its process ends only when its unfinished files are gone.
    await task.waitFor({ state: "detached" });
  });

  await t.step("a build that fails says why, and can be tried again", async () => {
    await Deno.remove(join(home.home.dir, "build"), { recursive: true });
    await Deno.writeTextFile(join(home.home.dir, "build"), "");
    await page.getByRole("button", { name: "Build the image of claude" }).click();
    const task = page.getByRole("article", { name: "Image of claude" });
    await task.getByRole("alert").waitFor();
    await task.getByRole("button", { name: "Try again" }).waitFor();
    await checkViews(desktop, "images_failed");
  });

  await t.step("unused files go after a question", async () => {
    await Deno.writeTextFile(join(home.home.assetsDir, `rootfs-${"0".repeat(16)}.erofs`), "left over");
    await page.getByRole("button", { name: "Remove unused files" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/VMs keep theirs/).waitFor();
    await dialog.getByRole("button", { name: "Remove unused files" }).click();
    const notice = page.locator(".notice p span");
    await notice.waitFor();
    assertEquals(await notice.innerText(), "4.1 kB are freed.");
  });
  assertEquals(desktop.problems, []);
});
