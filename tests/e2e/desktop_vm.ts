/** One VM in the desktop: its terminal, its timeline, and what changed in its workspace. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { viewSteps } from "./desktop_views.ts";
import { workSteps } from "./desktop_work.ts";
import { type DesktopWorld, MARKUP } from "./desktop_world.ts";

/** A name of a file may hold everything but a slash. */
const FILE = MARKUP.replaceAll("/", "∕");

export async function vmSteps(t: Deno.TestContext, world: DesktopWorld): Promise<void> {
  const { sbx, desktop } = world;
  const { page } = desktop;
  const rows = page.locator(".xterm-rows");

  await t.step("the terminal is typed into, and keeps its output to itself", async () => {
    await desktop.open("vm", "desk", "terminal");
    await rows.getByText("root@desk").first().waitFor();
    await page.keyboard.type(
      `printf '\\033]0;owned\\007\\033[38;2;9;99;199mtyped %s\\n' $((6*7)) '${MARKUP}'\n`,
    );
    await rows.getByText("typed 42").waitFor();
    assertEquals(await page.title(), "desk · Terminal – sbx");
    const color = `getComputedStyle([...document.querySelectorAll(".xterm-rows span")]
      .find(({ textContent }) => textContent.startsWith("typed 42"))).color`;
    assertEquals(await page.evaluate(color), "rgb(9, 99, 199)");
    await desktop.open("sessions");
    await desktop.open("vm", "desk", "terminal");
    await rows.getByText("typed 42").waitFor();
  });

  await t.step(
    "a further terminal runs a shell of its own, and shows what it printed when it is opened again",
    async () => {
      await page.getByRole("button", { name: "New terminal" }).click();
      const tab = page.getByRole("button", { name: /^Terminal \d+$/ });
      await tab.waitFor();
      await rows.getByText("typed 42").waitFor({ state: "detached" });
      await rows.getByText("root@desk").first().waitFor();
      await page.keyboard.type("echo second $((6*8))\n");
      await rows.getByText("second 48").waitFor();
      await page.getByRole("button", { name: "Main" }).click();
      await rows.getByText("typed 42").waitFor();
      await desktop.open("sessions");
      await desktop.open("vm", "desk", "terminal");
      await tab.click();
      await rows.getByText("second 48").waitFor();
      await page.keyboard.type("exit\n");
      await tab.waitFor({ state: "detached" });
    },
  );

  await t.step(
    "with a graphics processor a terminal is drawn by it, and without again when it goes",
    async () => {
      const second = await desktop.context.newPage();
      // Chromium's own, in software, taken for one of hardware.
      await second.addInitScript(
        "WebGL2RenderingContext.prototype.getParameter = new Proxy(" +
          "WebGL2RenderingContext.prototype.getParameter, { apply: (get, gl, [name]) => " +
          "name === 0x9246 ? 'a processor' : Reflect.apply(get, gl, [name]) })",
      );
      await second.goto(`${desktop.origin}/desktop/#/vm/desk/terminal`);
      await second.locator(".xterm-accessibility-tree").getByText("typed 42").waitFor();
      await second.locator(".xterm-screen canvas").first().waitFor();
      assertEquals(await second.locator(".xterm-rows").count(), 0);
      await second.evaluate(`[...document.querySelectorAll(".xterm-screen canvas")].forEach((canvas) =>
      canvas.getContext("webgl2")?.getExtension("WEBGL_lose_context").loseContext())`);
      await second.locator(".xterm-rows").getByText("typed 42").waitFor();
      await second.close();
    },
  );

  await t.step("the timeline grows as events happen, and tells why each was decided", async () => {
    await desktop.open("vm", "desk", "timeline");
    await page.getByRole("status").getByText(/^(The newest )?[\d,]+ events/).waitFor();
    await sbx.ok("exec", "desk", "--", "sh", "-c", `: '${MARKUP}'; curl -s http://asked.example/free`);
    const option = page.getByRole("option", { name: /http\.request.*asked\.example\/free/ });
    await option.click();
    await page.getByRole("heading", { name: /^Allowed/ }).waitFor();
    await page.getByText("All fields").click();
    assertStringIncludes(await page.getByRole("region", { name: "Why" }).innerText(), MARKUP);
    await page.getByLabel("Decision").selectOption("block");
    // As many as in the record: a client that was not answered in time has asked again.
    const { events } = (await sbx.api("GET", "/sessions/desk/events?decision=block&limit=1000")).body;
    await page.getByText(`${events.length} events`, { exact: true }).waitFor();
    await page.getByRole("option", { name: /asked\.example\/first/ }).first().click();
    await page.getByRole("heading", { name: /^Blocked by your rule/ }).waitFor();
    assertEquals(await desktop.violations(), []);
  });

  await t.step("changes since a snapshot are put back in part", async () => {
    await sbx.ok("exec", "desk", "--", "sh", "-c", "echo one >kept; echo two >lost");
    await desktop.open("vm", "desk", "changes");
    await page.getByRole("button", { name: "Make a snapshot" }).click();
    await page.getByText("Nothing changed since").waitFor();
    await sbx.ok("exec", "desk", "--", "sh", "-c", `echo new >kept; rm lost; echo x >'${FILE}'`);
    await desktop.open("sessions");
    await desktop.open("vm", "desk", "changes");
    await page.getByText(FILE).waitFor();
    assertEquals(await desktop.violations(), []);
    await page.getByLabel("Choose lost").check();
    await page.getByRole("button", { name: "Put back 1 chosen" }).click();
    await page.getByText("The workspace as it was is a snapshot too").waitFor();
    assertEquals(await sbx.ok("exec", "desk", "--", "sh", "-c", "cat kept lost"), "new\ntwo\n");
  });

  await workSteps(t, world);
  await viewSteps(t, world);
}
