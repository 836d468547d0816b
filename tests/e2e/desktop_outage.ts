/** A service and a gateway that end and come back, a network that breaks, and two windows. */
import { assertEquals } from "@std/assert";
import { BadNetwork } from "../helper/bad_network.ts";
import type { DesktopWorld } from "./desktop_world.ts";

/** `ms` that each packet of a slow network takes. */
const SLOW_MS = 150;

export async function outageSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page, context } = desktop;
  const away = page.getByText("sbx is away");
  const running = page.getByRole("row", { name: /desk/ }).getByText("Running");

  await t.step("the service is killed and comes back, and so does the page", async () => {
    await desktop.open("sessions");
    Deno.kill(sbx.pid("service"), "SIGKILL");
    await away.waitFor();
    await sbx.ok("start");
    await away.waitFor({ state: "detached" });
    await running.waitFor();
  });

  await t.step("a new gateway with a new token still knows the browser", async () => {
    const { base, token } = sbx;
    Deno.kill(sbx.pid("gateway"), "SIGTERM");
    await away.waitFor();
    await sbx.ok("start", "--port", new URL(base).port);
    await away.waitFor({ state: "detached" });
    assertEquals([sbx.base === base, sbx.token === token], [true, false]);
  });

  await t.step(
    "on a slow network that breaks, the page says so, comes back, and knows what it missed",
    async () => {
      await using network = new BadNetwork(Number(new URL(sbx.base).port));
      const other = await desktop.browser.newContext({ reducedMotion: "reduce" });
      const far = await other.newPage();
      network.delay = SLOW_MS;
      const url = (await sbx.ok("desktop", "--print-url")).trim();
      await far.goto(url.replace(/:\d+\//, `:${network.port}/`));
      const row = far.getByRole("row", { name: /desk/ });
      await row.getByText("Running").waitFor();
      network.cut();
      await far.getByText("sbx is away").waitFor();
      await far.getByRole("button", { name: "Pause desk" }).click();
      await far.locator(".notice").getByText("sbx does not answer").waitFor();
      await sbx.ok("pause", "desk");
      network.mend();
      await row.getByText("Paused").waitFor();
      await far.getByText("sbx is away").waitFor({ state: "detached" });
      await far.getByRole("button", { name: "Resume desk" }).click();
      await row.getByText("Running").waitFor();
      await other.close();
    },
  );

  await t.step("two windows show the same; one that has not signed in shows nothing", async () => {
    const second = await context.newPage();
    await second.goto(`${sbx.base}/desktop/`);
    await second.getByRole("row", { name: /desk/ }).getByText("Running").waitFor();
    await second.getByRole("button", { name: "Pause desk" }).click();
    await page.getByRole("row", { name: /desk/ }).getByText("Paused").waitFor();
    await page.getByRole("button", { name: "Resume desk" }).click();
    await second.getByRole("row", { name: /desk/ }).getByText("Running").waitFor();
    await second.close();
  });
}
