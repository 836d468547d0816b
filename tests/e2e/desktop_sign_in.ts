/** Signing in: one address, one browser, one time. */
import { assertEquals, assertMatch } from "@std/assert";
import type { DesktopWorld } from "./desktop_world.ts";

export async function signInSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page, context } = desktop;

  await t.step("without a session the page says how to sign in", async () => {
    await sbx.ok("start");
    await page.goto(`${sbx.base}/`);
    await page.getByText("sbx desktop --print-url").waitFor();
  });

  await t.step("an address signs one browser in, once, and leaves no code behind", async () => {
    const url = (await sbx.ok("desktop", "--print-url")).trim();
    assertMatch(url, /^http:\/\/sbx-[0-9a-f]{16}\.localhost:\d+\/desktop\/#code=\w{64}$/);
    await page.goto(url);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    assertEquals(new URL(page.url()).hash, "");
    assertEquals([...desktop.origins].sort(), [sbx.base, desktop.origin].sort());
    const [cookie] = await context.cookies();
    assertEquals([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
    const second = await desktop.newContext();
    const other = await second.newPage();
    await other.goto(url);
    await other.getByText("this link was used before").waitFor();
    await second.close();
  });

  await t.step(
    "a page of another port of this machine can reach nothing, though it has the cookie",
    async () => {
      let cookies = "";
      const site = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
        cookies = request.headers.get("cookie") ?? "";
        return new Response("<p>hi", { headers: { "content-type": "text/html" } });
      });
      const other = await context.newPage();
      const { hostname } = new URL(desktop.origin);
      await other.goto(`http://${hostname}:${site.addr.port}/`);
      assertMatch(cookies, /^sbx-desktop-\d+=\w{64}$/);
      const tries = `Promise.all([
      fetch("${desktop.origin}/vms/list", { credentials: "include" }),
      fetch("${desktop.origin}/purge", { method: "POST", credentials: "include", mode: "no-cors" }),
      fetch("${desktop.origin}/vms/list", { credentials: "include", headers: { "x-sbx-desktop": "a" } }),
      new Promise((done, failed) => {
        const socket = new WebSocket("${desktop.origin.replace("http", "ws")}/events", "sbx.desktop.a");
        socket.onopen = () => done({ type: "opened" });
        socket.onerror = failed;
      }),
    ].map((each) => each.then(({ type, status }) => type + (status ?? ""), () => "refused")))`;
      assertEquals(await other.evaluate(tries), ["refused", "opaque0", "refused", "refused"]);
      await other.close();
      await site.shutdown();
      const answer = await fetch(`${sbx.base}/vms/list`, { headers: { cookie: cookies } });
      assertEquals([answer.status, (await answer.json()).code], [401, "auth.missing_token"]);
      desktop.origins.clear();
    },
  );
}
