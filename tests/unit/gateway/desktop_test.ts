/** Sign-in of the desktop page: codes, sessions, origins, files. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CODE_TTL_MS, Codes } from "../../../lib/gateway/desktop/codes.ts";
import { DesktopGate, DesktopPage, isDesktopPath, Sessions } from "../../../lib/gateway/desktop/mod.ts";
import { SESSION_TTL_MS, SESSIONS_MAX } from "../../../lib/gateway/desktop/sessions.ts";

const BASE = "http://127.0.0.1:19222";
const OWN = { host: "127.0.0.1:19222", origin: BASE, "user-agent": "browser" };

Deno.test("a code is taken once, and within a minute", () => {
  let now = 0;
  const codes = new Codes(() => now);
  const [first, second] = [codes.issue(), codes.issue()];
  assertEquals([codes.take(first), codes.take(first), codes.take("x")], [true, false, false]);
  now = CODE_TTL_MS;
  assertEquals(codes.take(second), false);
});

Deno.test("a session needs both secrets and its browser, outlives the gateway, and ends", async () => {
  const file = join(await Deno.makeTempDir(), "desktop.json");
  let now = 1000;
  const open = () => Sessions.open(file, () => now);
  const secrets = await (await open()).add("browser");
  const text = await Deno.readTextFile(file);
  assert(!text.includes(secrets.cookie) && !text.includes(secrets.key));
  assertEquals((await Deno.stat(file)).mode! & 0o077, 0);
  const sessions = await open();
  assert(await sessions.has(secrets, "browser"));
  assert(!await sessions.has(secrets, "another browser"));
  assert(!await sessions.has({ ...secrets, key: "" }, "browser"));
  assert(!await sessions.has({ ...secrets, cookie: "" }, "browser"));
  now += SESSION_TTL_MS;
  assert(!await sessions.has(secrets, "browser"));
  now = 1000;
  for (let count = 0; count < SESSIONS_MAX; count++) await sessions.add("browser");
  assert(!await sessions.has(secrets, "browser"), "the oldest one makes room");
});

Deno.test("a damaged file of sessions signs everybody out", async () => {
  const file = join(await Deno.makeTempDir(), "desktop.json");
  for (const text of ["", "{}", "[1]", '[{"cookie":"","key":"","agent":"","expires_at":9e15}]']) {
    await Deno.writeTextFile(file, text);
    assert(!await (await Sessions.open(file)).has({ cookie: "", key: "" }, ""));
  }
});

Deno.test("a code becomes a session for the page's own origin alone", async () => {
  await using made = await makeGate();
  const { gate } = made;
  const code = (await gate.issue().json()).code;
  const exchange = (headers: Record<string, string>, body = JSON.stringify({ code })) =>
    gate.answer(
      new Request(`${BASE}/desktop/session`, { method: "POST", headers, body }),
      "/desktop/session",
    );
  const size = String(JSON.stringify({ code }).length);
  for (const origin of ["http://localhost:19222", "http://127.0.0.1:8080", "null"]) {
    await assertRejects(
      () => exchange({ ...OWN, origin, "content-length": size }),
      SbxError,
      "only the desktop page",
    );
  }
  const answer = await exchange({ ...OWN, "content-length": size });
  const cookie = answer.headers.get("set-cookie")!;
  assertMatch(cookie, /^sbx-desktop-19222=\w{64}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/);
  const { key } = await answer.json();
  await assertRejects(() => exchange({ ...OWN, "content-length": size }), SbxError, "used before");

  const ask = (headers: Record<string, string>) => gate.admits(new Request(`${BASE}/vms/list`, { headers }));
  const signed = { ...OWN, cookie: cookie.split(";")[0] };
  assertEquals(await ask(signed), false, "the cookie alone is nothing");
  assertEquals(await ask({ ...signed, "x-sbx-desktop": key }), true);
  assertEquals(await ask({ ...signed, "sec-websocket-protocol": `sbx.desktop.${key}` }), true);
  for (
    const wrong of [
      { ...signed, origin: "http://127.0.0.1:8080", "x-sbx-desktop": key },
      { ...signed, "user-agent": "other", "x-sbx-desktop": key },
      { ...signed, cookie: "", "x-sbx-desktop": key },
      { ...signed, "x-sbx-desktop": "" },
    ]
  ) {
    await assertRejects(() => ask(wrong), SbxError);
  }
});

Deno.test("the page's files have a policy without exceptions; other files are not served", async () => {
  await using made = await makeGate();
  const get = (path: string) => made.gate.answer(new Request(BASE + path, { headers: OWN }), path);
  const page = await get("/desktop/");
  const policy = page.headers.get("content-security-policy")!;
  assertMatch(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
  assert(!policy.includes("unsafe"));
  for (const name of ["opener", "resource"]) {
    assertEquals(page.headers.get(`cross-origin-${name}-policy`), "same-origin");
  }
  assertEquals(await page.text(), "<p>page");
  assertEquals((await get("/")).headers.get("location"), "/desktop/");
  for (
    const path of ["/desktop/secret", "/desktop/..%2fsecret.js", "/desktop/../secret.js", "/desktop/a/b.js"]
  ) {
    await assertRejects(() => get(path), SbxError, "has no file");
  }
  assert(
    !isDesktopPath("/desktop/codes") && !isDesktopPath("/desktops") && isDesktopPath("/desktop/main.js"),
  );
});

async function makeGate() {
  const dir = await Deno.makeTempDir();
  await Deno.mkdir(join(dir, "page"));
  await Deno.writeTextFile(join(dir, "page/index.html"), "<p>page");
  await Deno.writeTextFile(join(dir, "secret.js"), "secret");
  const gate = new DesktopGate(
    await Sessions.open(join(dir, "desktop.json")),
    new DesktopPage(join(dir, "page")),
  );
  return { gate, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}
