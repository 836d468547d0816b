/** The desktop in a real browser, against the real gateway, with one VM for all. */
import { assertEquals } from "@std/assert";
import { credentialSteps } from "./desktop_credentials.ts";
import { detectionSteps } from "./desktop_detections.ts";
import { firstSteps } from "./desktop_first_steps.ts";
import { inboxSteps } from "./desktop_inbox.ts";
import { keyboardSteps } from "./desktop_keyboard.ts";
import { lookSteps } from "./desktop_look.ts";
import { mcpSteps } from "./desktop_mcp.ts";
import { outageSteps } from "./desktop_outage.ts";
import { policySteps } from "./desktop_policy.ts";
import { settingsSteps } from "./desktop_settings.ts";
import { signInSteps } from "./desktop_sign_in.ts";
import { vmSteps } from "./desktop_vm.ts";
import { takeAllSteps } from "./desktop_work.ts";
import { DesktopWorld } from "./desktop_world.ts";

Deno.test("the desktop", async (t) => {
  await using world = await DesktopWorld.make();
  const { page, problems, origins } = world.desktop;
  await signInSteps(t, world);
  await firstSteps(t, world);

  await t.step("a VM is created", async () => {
    await world.desktop.open("sessions");
    await page.getByRole("button", { name: "New VM" }).click();
    await page.getByLabel("Name (optional)").fill("desk");
    await page.getByLabel("Profile").selectOption("mine");
    await page.getByLabel("Workspace").selectOption("live");
    await page.getByLabel("Path of the folder").fill("/nowhere/at/all");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("dialog").getByRole("alert").getByText("/nowhere/at/all").waitFor();
    await page.getByLabel("Workspace").selectOption("repository");
    await page.getByLabel("Address of the repository").fill("http://git.example/repo.git");
    assertEquals(await world.desktop.violations(), []);
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("row", { name: /desk/ }).getByText("Running").waitFor();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    const inClone = ["exec", "desk", "--", "git", "-C", "repo"];
    assertEquals(await world.sbx.ok(...inClone, "log", "--format=%s"), "first\n");
    await world.sbx.ok("exec", "desk", "--", "rm", "-r", "repo");
  });

  await settingsSteps(t, world);
  await inboxSteps(t, world);
  await vmSteps(t, world);
  await policySteps(t, world);
  await mcpSteps(t, world);
  await detectionSteps(t, world);
  await credentialSteps(t, world);
  await takeAllSteps(t, world);
  await outageSteps(t, world);

  await lookSteps(t, world);
  await keyboardSteps(t, world);

  await t.step(
    "a VM is deleted, after the page says what is lost, and is gone in another window",
    async () => {
      const second = await world.desktop.context.newPage();
      await second.goto(`${world.desktop.origin}/desktop/#/sessions`);
      await second.getByRole("row", { name: /desk/ }).waitFor();
      await world.desktop.open("sessions");
      await page.getByRole("button", { name: "More for desk" }).click();
      await page.getByRole("menuitem", { name: "Delete" }).click();
      await page.getByText("workspace and snapshots are deleted; sbx restore brings them back").waitFor();
      await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
      // Work that the person took in part was brought in: what is left is not lost at one click.
      await page.getByRole("dialog").getByRole("button", { name: "Delete anyway" }).click();
      await page.getByText("No VM yet").waitFor();
      await second.getByText("No VM yet").waitFor();
      await second.close();
    },
  );

  await t.step("no markup ran, nothing broke the policy, and nobody else was asked", async () => {
    assertEquals(await page.evaluate("globalThis.ran"), undefined);
    assertEquals(problems, []);
    assertEquals([...origins], [world.desktop.origin]);
  });
});
