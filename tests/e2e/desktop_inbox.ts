/** Asks that a guest waits for, answered in the inbox. */
import { assertEquals } from "@std/assert";
import { type DesktopWorld, MARKUP } from "./desktop_world.ts";

const CURL = ["curl", "-s", "-m", "50", "-o", "/dev/null", "-w", "%{http_code}"];

export async function inboxSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  const curl = (path: string, ...args: string[]) =>
    sbx.cli("exec", "desk", "--", ...CURL, ...args, `http://asked.example${path}`);

  await t.step("an ask is denied by the keyboard while curl waits in the guest", async () => {
    await desktop.open("inbox");
    await page.getByText("Nothing waits for you").waitFor();
    const waiting = curl("/first", "-H", `x-hostile: ${MARKUP}`, "-d", MARKUP);
    await page.getByRole("heading", { name: /asked\.example/ }).waitFor();
    assertEquals(await page.title(), "(1) sbx");
    await page.keyboard.press("Enter");
    await page.getByText("http.request.path", { exact: true }).waitFor();
    assertEquals(await desktop.violations(), []);
    await page.keyboard.press("d");
    await page.getByText("Nothing waits for you").waitFor();
    assertEquals((await waiting).stdout, "403");
  });

  await t.step("an ask is allowed for the session, and what it covers asks no more", async () => {
    const waiting = curl("/second");
    await page.getByRole("button", { name: "Allow for the session" }).click();
    assertEquals((await waiting).stdout, "200");
    assertEquals((await curl("/second")).stdout, "200");
    assertEquals(await page.title(), "sbx");
  });
}
