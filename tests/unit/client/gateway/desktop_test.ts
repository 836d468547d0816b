/** Sign-in of the desktop page: codes, sessions, origins, files. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  DesktopGate,
  DesktopPage,
  GatewayRun,
  isDesktopPath,
  Sessions,
} from "../../../../lib/client/gateway/desktop/mod.ts";
import {
  CODE_TTL_MS,
  Codes,
  SESSION_TTL_MS,
  SESSIONS_MAX,
} from "../../../../lib/client/gateway/desktop/gate.ts";

const run = await GatewayRun.make();
const HOST = `${run.hostname}:19222`;
const BASE = `http://${HOST}`;
const OWN = { host: HOST, origin: BASE, "user-agent": "browser" };

Deno.test("a code is taken once, and within a minute", () => {
  let now = 0;
  const codes = new Codes(() => now);
  const [first, second] = [codes.issue(), codes.issue()];
  assertEquals([codes.take(first), codes.take(first), codes.take("x")], [true, false, false]);
  now = CODE_TTL_MS;
  assertEquals(codes.take(second), false);
});

Deno.test("a session needs both secrets and its browser, is no other gateway's, and ends", async () => {
  let now = 1000;
  const sessions = new Sessions(() => now);
  const secrets = await sessions.add("browser");
  assert(await sessions.has(secrets, "browser"));
  assert(!await new Sessions(() => now).has(secrets, "browser"));
  assert(!await sessions.has(secrets, "another browser"));
  assert(!await sessions.has({ ...secrets, key: "" }, "browser"));
  assert(!await sessions.has({ ...secrets, cookie: "" }, "browser"));
  now += SESSION_TTL_MS;
  assert(!await sessions.has(secrets, "browser"));
  now = 1000;
  for (let count = 0; count < SESSIONS_MAX; count++) await sessions.add("browser");
  assert(!await sessions.has(secrets, "browser"), "the oldest one makes room");
});

Deno.test("a gateway's proof counts for its run, one challenge and one address", async () => {
  await using made = await makeGate();
  const challenge = crypto.getRandomValues(new Uint8Array(32)).toBase64();
  const prove = async (text: string) => {
    const path = `/desktop/proof?challenge=${encodeURIComponent(text)}`;
    return await made.gate.answer(new Request(BASE + path, { headers: { host: HOST } }), "/desktop/proof");
  };
  const { signature } = await (await prove(challenge)).json();
  const verify = async (key: string, host: string, asked: string) =>
    await crypto.subtle.verify(
      { name: "ECDSA", hash: "SHA-256" },
      await crypto.subtle.importKey(
        "spki",
        Uint8Array.fromBase64(key),
        { name: "ECDSA", namedCurve: "P-256" },
        false,
        ["verify"],
      ),
      Uint8Array.fromBase64(signature),
      new TextEncoder().encode(`sbx-desktop-proof-v1\n${host}\n${asked}`),
    );
  assertEquals(await verify(run.publicKey, HOST, challenge), true);
  const other = crypto.getRandomValues(new Uint8Array(32)).toBase64();
  assertEquals(await verify(run.publicKey, HOST, other), false);
  assertEquals(await verify(run.publicKey, "127.0.0.1:19222", challenge), false);
  assertEquals(await verify((await GatewayRun.make()).publicKey, HOST, challenge), false);
  for (const bad of ["", "x", challenge.slice(1), `${challenge}\n`]) {
    await assertRejects(() => prove(bad), SbxError, "challenge");
  }
});

Deno.test("a code becomes a session for the page's own origin alone", async () => {
  await using made = await makeGate();
  const { gate } = made;
  const { code, hostname } = await gate.issue().json();
  assertMatch(hostname, /^sbx-[0-9a-f]{16}\.localhost$/);
  const exchange = (headers: Record<string, string>, body = JSON.stringify({ code })) =>
    gate.answer(
      new Request(`${BASE}/desktop/session`, { method: "POST", headers, body }),
      "/desktop/session",
    );
  const size = String(JSON.stringify({ code }).length);
  for (const host of ["127.0.0.1:19222", "localhost:19222", "sbx-0000000000000000.localhost:19222"]) {
    await assertRejects(
      () => exchange({ ...OWN, host, origin: `http://${host}`, "content-length": size }),
      SbxError,
      "only the desktop page",
    );
  }
  for (const origin of ["http://localhost:19222", "http://127.0.0.1:8080", "null"]) {
    await assertRejects(
      () => exchange({ ...OWN, origin, "content-length": size }),
      SbxError,
      "only the desktop page",
    );
  }
  const answer = await exchange({ ...OWN, "content-length": size });
  const cookie = answer.headers.get("set-cookie")!;
  assertMatch(cookie, /^sbx-desktop-19222=\w{64}; Path=\/; HttpOnly; SameSite=Strict$/);
  const { key, gateway_key } = await answer.json();
  assertEquals(gateway_key, run.publicKey);
  await assertRejects(() => exchange({ ...OWN, "content-length": size }), SbxError, "used before");

  const ask = (headers: Record<string, string>) => gate.admits(new Request(`${BASE}/vms/list`, { headers }));
  const signed = { ...OWN, cookie: cookie.split(";")[0] };
  assertEquals(await ask(signed), false, "the cookie alone is nothing");
  assertEquals(await ask({ ...signed, "x-sbx-desktop": key }), true);
  assertEquals(await ask({ ...signed, "sec-websocket-protocol": `sbx.desktop.${key}` }), true);
  for (
    const wrong of [
      { ...signed, origin: "http://127.0.0.1:8080", "x-sbx-desktop": key },
      { ...signed, host: "127.0.0.1:19222", origin: "http://127.0.0.1:19222", "x-sbx-desktop": key },
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

Deno.test("a file goes out as the build compressed it, where the browser takes that", async () => {
  await using made = await makeGate();
  const page = join(made.dir, "page");
  for (const suffix of ["", ".br", ".gz"]) {
    await Deno.writeTextFile(join(page, `main.js${suffix}`), `code${suffix}`);
  }
  const sent = async (accepted: string | undefined, name = "main.js") => {
    const headers: HeadersInit = accepted === undefined ? {} : { "accept-encoding": accepted };
    const answer = await made.gate.answer(
      new Request(`http://x/desktop/${name}`, { headers }),
      `/desktop/${name}`,
    );
    assertEquals(answer.headers.get("vary"), "accept-encoding");
    assertEquals(
      answer.headers.get("content-type")?.split(";")[0],
      name === "" ? "text/html" : "text/javascript",
    );
    return [answer.headers.get("content-encoding"), await answer.text()];
  };
  assertEquals(await sent("gzip, deflate, br, zstd"), ["br", "code.br"]);
  assertEquals(await sent("GZIP;q=0.5"), ["gzip", "code.gz"]);
  assertEquals(await sent("br;q=0, gzip; q=0.0, brx"), [null, "code"]);
  assertEquals(await sent(undefined), [null, "code"]);
  // A small file has no compressed one beside it.
  assertEquals(await sent("br", ""), [null, "<p>page"]);

  // A compiled program has one form of each.
  await Deno.remove(join(page, "main.js"));
  await Deno.remove(join(page, "main.js.br"));
  await Deno.writeFile(join(page, "main.js.gz"), gzipSync("code as it was"));
  assertEquals(await sent(undefined), [null, "code as it was"]);
  assertEquals(await sent("br, gzip;q=0"), [null, "code as it was"]);
  const answer = await fetch(`data:;base64,${(await Deno.readFile(join(page, "main.js.gz"))).toBase64()}`);
  assertEquals(await sent("gzip"), ["gzip", await answer.text()]);
  await assertRejects(() => sent("gzip", "other.js"), SbxError, "has no file");
});

async function makeGate() {
  const dir = await Deno.makeTempDir();
  await Deno.mkdir(join(dir, "page"));
  await Deno.writeTextFile(join(dir, "page/index.html"), "<p>page");
  await Deno.writeTextFile(join(dir, "secret.js"), "secret");
  const gate = new DesktopGate(run, new Sessions(), new DesktopPage(join(dir, "page")));
  return { gate, dir, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}
