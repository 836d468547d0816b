/** Rules on the desktop page, in Chromium against the whole service: tried and compared on sessions that have something. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { Home } from "../../lib/base/home/mod.ts";
import { DesktopHome } from "../helper/desktop_home.ts";
import { http } from "../helper/session_gate.ts";
import { recordOf } from "../helper/vm.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const EMPTY = "00000000-0000-4000-8000-00000000000b";

/** A profile that may be changed, with no session yet. */
async function prepare(home: Home): Promise<void> {
  await Deno.mkdir(join(home.profilesDir, "mine"), { recursive: true });
  const text = `id = "mine"\nname = "Mine"\ndescription = ""\nrevision = "1.0.0"\n`;
  await Deno.writeTextFile(join(home.profilesDir, "mine", "profile.toml"), text);
}

Deno.test("rules on the desktop page", options, async (t) => {
  await using home = await DesktopHome.make({
    prepare,
    past: [{ id: EMPTY, name: "nothing-happened", write() {} }],
  });
  const { desktop } = home;
  const { page } = desktop;
  const dialog = page.getByRole("dialog");
  const compared = page.getByRole("region", { name: "Compare with the newest session" });
  const effect = dialog.getByRole("region", { name: "Effect of the rule" });
  const write = async (match: string) => {
    await page.getByRole("button", { name: "New rule" }).click();
    await dialog.getByLabel("Id").fill("no-tried");
    await dialog.getByLabel("Action").selectOption("block");
    await dialog.getByLabel(/^Match/).press("Control+a");
    await page.keyboard.insertText(match);
  };
  const discard = async () => {
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Discard it" }).click();
  };
  await home.gate.decide(http("tried.example"));
  await home.ledger.flush();

  await t.step("without a session that has a decision, neither reports success", async () => {
    await desktop.open("rules?profile=mine");
    await compared.getByRole("button", { name: "Compare" }).click();
    await compared.getByText("No session of this profile has a decision yet. Start a VM with it").waitFor();
    await write('http.request.host == "tried.example"');
    await effect.getByRole("button", { name: "Try on the newest session" }).click();
    await effect.getByText("No session of this profile has a decision yet. Start a VM with it").waitFor();
    assertEquals(await desktop.violations(), []);
    await discard();
  });

  await t.step("a newer session without an event is passed over", async () => {
    const { sessions } = await home.withClient((client) =>
      client.json<{ sessions: { name: string }[] }>("GET", "/sessions/list")
    );
    assertEquals(sessions.map(({ name }) => name), ["nothing-happened", "dev"]);
    await desktop.open("rules?profile=code");
    await compared.getByRole("button", { name: "Compare" }).click();
    await compared.getByText("Nothing differs: 1 decisions of dev.").waitFor();
    for (const [id, name] of [[home.id, "dev"], [EMPTY, "nothing-happened"]]) {
      home.service.sessions.put({ ...recordOf(id, name), profile_id: "mine" });
    }
    await desktop.open("rules?profile=mine");
    await write('http.request.host == "tried.example"');
    await effect.getByRole("button", { name: "Try on the newest session" }).click();
    await effect.getByText("It changes 1 of 1 decisions of dev:").waitFor();
    await effect.getByRole("row", { name: /tried\.example.*block by no-tried/ }).waitFor();
    await discard();
  });

  assertEquals(desktop.problems, []);
});
