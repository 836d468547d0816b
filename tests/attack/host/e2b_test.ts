/**
 * Attacks on the server for E2B's clients: keys, tokens, ids and signatures of others,
 * and text that becomes a program.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { Sandboxes } from "../../../cmd/sbx/e2b/sandboxes.ts";
import { e2bHandler } from "../../../cmd/sbx/e2b/server.ts";
import { newId, newToken, type Sandbox, Store } from "../../../cmd/sbx/e2b/store.ts";
import { newToken as newKey, TokenGate } from "../../../lib/client/gateway/mod.ts";
import { RepositoryVm } from "../../helper/repository_vm.ts";

/** A server over a real service with one VM, whose programs run on this machine. */
interface Fixture {
  vm: RepositoryVm;
  key: string;
  own: Sandbox;
  other: Sandbox;
  handle(request: Request): Promise<Response>;
  ask(path: string, init?: RequestInit): Promise<Response>;
}

async function withServer(run: (fixture: Fixture) => Promise<void>): Promise<void> {
  await using vm = await RepositoryVm.make();
  const store = await Store.open(join(vm.dir, "e2b.json"));
  const { id } = await vm.client.json<{ id: string }>("GET", "/vms/dev/status");
  const sandbox = (): Sandbox => ({
    ...{
      id: newId(),
      vm: id,
      template: "base",
      token: newToken(),
      metadata: {},
      started_at: 1,
      ends_at: 2,
    },
    ...{ on_timeout: "kill", auto_resume: false, allows_internet: true, is_paused: false },
  });
  const [own, other] = [sandbox(), sandbox()];
  for (const each of [own, other]) await store.put({ ...each, ends_at: Date.now() + 3_600_000 });
  const key = newKey();
  using http = Deno.createHttpClient({});
  const handle = e2bHandler(new Sandboxes(vm.client, store, new Map()), new TokenGate(key), http);
  const ask = (path: string, init?: RequestInit) =>
    handle(new Request(`http://127.0.0.1:19230${path}`, init));
  await run({ vm, key, own, other, handle, ask });
}

const test = (name: string, run: (fixture: Fixture) => Promise<void>) =>
  Deno.test({ name, sanitizeOps: false, sanitizeResources: false, fn: () => withServer(run) });

const envd = ({ id }: { id: string }, token?: string, more: Record<string, string> = {}) => ({
  "e2b-sandbox-id": id,
  "e2b-sandbox-port": "49983",
  ...token !== undefined && { "x-access-token": token },
  ...more,
});

test("no route answers without the key, and many wrong keys do not lock out the right one", async ({ key, own, ask }) => {
  const paths = ["/v2/sandboxes", `/sandboxes/${own.id}`, "/snapshots", "/templates", "/", "/vms/list"];
  for (const path of paths) {
    for (
      const headers of [{}, { "x-api-key": "" }, { "x-api-key": own.token }, {
        authorization: `Bearer ${key}`,
      }]
    ) {
      assertEquals((await ask(path, { headers: headers as HeadersInit })).status, 401, path);
    }
    await (await ask(`${path}?x-api-key=${key}`)).body?.cancel();
  }
  // The gateway's token reaches all of sbx: a program of E2B is not sent to it.
  const { message } = await (await ask("/v2/sandboxes", { headers: { "x-api-key": "other" } })).json();
  assertMatch(message, /E2B_API_KEY/);
  assertEquals(/gateway/.test(message), false, message);
  let last = 0;
  for (let at = 0; at < 30; at++) {
    last = (await ask("/v2/sandboxes", { headers: { "x-api-key": newKey() } })).status;
  }
  assertEquals(last, 429);
  assertEquals((await ask("/v2/sandboxes", { headers: { "x-api-key": key } })).status, 200);
});

test("a key reaches sandboxes alone: no VM of the home by its name or id, and no route of sbx", async ({ key, own, ask }) => {
  const headers = { "x-api-key": key };
  for (const id of ["dev", own.vm, "..", "%2e%2e", "__proto__", "constructor", ""]) {
    for (
      const [method, path] of [["GET", ""], ["DELETE", ""], ["POST", "/pause"], ["POST", "/fork"], [
        "GET",
        "/metrics",
      ]]
    ) {
      const { status } = await ask(`/sandboxes/${id}${path}`, { method, headers });
      assertMatch(String(status), /^(404|501)$/, `${method} ${id}${path}`);
    }
    assertEquals((await ask("/health", { headers: envd({ id }, own.token) })).status, 502);
  }
  for (const path of ["/vms/list", "/settings/info", "/vms/dev/info", "/credentials/list"]) {
    assertEquals((await ask(path, { headers })).status, 404);
    assertEquals((await ask(path, { headers: envd(own, own.token) })).status, 404);
  }
});

test("a sandbox takes its own token, not another one's, and not the key", async ({ key, own, other, ask }) => {
  assertEquals((await ask("/health", { headers: envd(own, own.token) })).status, 204);
  for (const token of [undefined, "", other.token, key, own.token.slice(1), own.token.toUpperCase()]) {
    const headers = envd(own, token);
    for (
      const path of [
        "/health",
        "/files?path=/etc/hostname",
        "/process.Process/List",
        "/filesystem.Filesystem/Stat",
      ]
    ) {
      assertEquals(
        (await ask(path, { method: path.startsWith("/p") ? "POST" : "GET", headers })).status,
        401,
      );
    }
    const port = { ...headers, "e2b-sandbox-port": "8000" };
    assertEquals((await ask("/", { headers: port })).status, 401);
    const host = { host: `8000-${own.id}.e2b.app`, ...token !== undefined && { "x-access-token": token } };
    assertEquals((await ask("/", { headers: host as HeadersInit })).status, 401);
  }
});

async function signed(
  path: string,
  operation: string,
  user: string,
  token: string,
  expiry?: string,
): Promise<string> {
  const raw = [path, operation, user, token, ...expiry === undefined ? [] : [expiry]].join(":");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(raw));
  return "v1_" + new Uint8Array(digest).toBase64().replace(/=+$/, "");
}

test("a signature is for one path, user and operation, until its time", async ({ own, ask }) => {
  const at = "/files?path=/etc/hostname";
  const past = String(Math.floor(Date.now() / 1000) - 5);
  const old = await signed("/etc/hostname", "read", "", own.token, past);
  const refused: [string, string][] = [
    [`${at}&signature=${await signed("/etc/shadow", "read", "", own.token)}`, "another path"],
    [`${at}&signature=${await signed("/etc/hostname", "write", "", own.token)}`, "another operation"],
    [`${at}&signature=${await signed("/etc/hostname", "read", "nobody", own.token)}`, "another user"],
    [`${at}&signature=${await signed("/etc/hostname", "read", "", "")}`, "no token"],
    [
      `${at}&signature=${old}&signature_expiration=${past}`,
      "over",
    ],
    [
      `${at}&signature=${old}&signature_expiration=NaN`,
      "no time",
    ],
    [
      `${at}&signature=${await signed(
        "/etc/hostname",
        "read",
        "",
        own.token,
      )}&signature_expiration=9999999999`,
      "later",
    ],
    [
      `/health?path=/etc/hostname&signature=${await signed("/etc/hostname", "read", "", own.token)}`,
      "another route",
    ],
    [`${at}&signature=`, "empty"],
  ];
  for (const [path, what] of refused) assertEquals((await ask(path)).status, 401, what);
});

test("a signature without a path writes no path of its bearer's choice", async ({ vm, own, ask }) => {
  const signature = await signed("", "write", "", own.token);
  const target = join(vm.dir, "guest", "chosen");
  for (const name of [target, `../../../../..${target}`, "a/b", "..", "~", "~/x"]) {
    const body = new FormData();
    body.append("file", new Blob(["x"]), name);
    const response = await ask(`/files?signature=${encodeURIComponent(signature)}`, { method: "POST", body });
    assertEquals([response.status, (await response.json()).message], [
      400,
      "a URL that is signed without a path takes names of files alone",
    ], name);
  }
  assertEquals(await Deno.stat(target).catch(() => "none"), "none");
});

test("a request whose host is no name is refused, without a message of the server's own", async ({ handle, key }) => {
  const failures: unknown[] = [];
  await using server = Deno.serve({
    ...{ hostname: "127.0.0.1", port: 0, onListen() {} },
    onError(error) {
      failures.push(error);
      return new Response(null, { status: 599 });
    },
  }, handle);
  for (const host of ["[", "a b", "a:b:c", "%00", "8000-.", "\\"]) {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
    const head =
      `GET /files?signature=x HTTP/1.1\r\nHost: ${host}\r\nX-API-Key: ${key}\r\nConnection: close\r\n\r\n`;
    await connection.write(new TextEncoder().encode(head));
    assertMatch(await new Response(connection.readable).text(), /^HTTP\/1.1 4/, host);
  }
  assertEquals(failures, []);
});

/** A call of envd in JSON. */
async function call(
  { own, ask }: Fixture,
  method: string,
  message: unknown,
  more: Record<string, string> = {},
): Promise<{ status: number; code?: string }> {
  const response = await ask(`/filesystem.Filesystem/${method}`, {
    method: "POST",
    headers: envd(own, own.token, { "content-type": "application/json", ...more }),
    body: JSON.stringify(message),
  });
  return { status: response.status, code: (await response.json()).code };
}

test("users, paths and names are no text of a shell, and no options", async (fixture) => {
  const pwned = join(fixture.vm.dir, "pwned");
  for (const user of [`root; touch ${pwned}`, `$(touch ${pwned})`, "-u0", "", "a:b", "root\n"]) {
    const authorization = `Basic ${btoa(user === "a:b" ? "\x01:" : `${user}:`)}`;
    const { code } = await call(fixture, "Stat", { path: "/etc" }, { authorization });
    assertEquals(code, "unauthenticated", user);
  }
  const below = join(fixture.vm.dir, "guest");
  for (
    const name of [
      `$(touch ${pwned})`,
      `\`touch ${pwned}\``,
      `; touch ${pwned}`,
      "-delete",
      "-exec touch x ;",
      "a\nb",
      "%p%p",
    ]
  ) {
    const path = `${below}/${name.replaceAll("/", "_")}`;
    assertEquals((await call(fixture, "MakeDir", { path })).status, 200, name);
    assertEquals(
      (await call(fixture, "Move", { source: path, destination: `${path} moved` })).status,
      200,
      name,
    );
    assertEquals((await Deno.stat(`${path} moved`)).isDirectory, true);
    assertEquals((await call(fixture, "Remove", { path: `${path} moved` })).status, 200, name);
  }
  assertEquals(Array.from(Deno.readDirSync(below)), []);
  assertEquals((await call(fixture, "Stat", { path: "/etc\0" })).code, "invalid_argument");
  assertEquals((await call(fixture, "ListDir", { path: "/", depth: 1000 })).code, "invalid_argument");
  assertEquals(await Deno.stat(pwned).catch(() => "none"), "none");
});

test("requests with unknown fields, bodies without end, and what sbx does not serve are refused", async ({ key, ask }) => {
  const post = async (body: BodyInit) => {
    const response = await ask("/v2/sandboxes", { method: "POST", headers: { "x-api-key": key }, body });
    return [response.status, (await response.json()).message] as const;
  };
  const json = (more: unknown) => JSON.stringify({ templateID: "base", ...more as object });
  for (
    const [body, status, message] of [
      [json({ from: "dev" }), 400, /from/],
      [json({ live: { dir: "/" } }), 400, /live/],
      [json({ timeout: -1 }), 400, /timeout/],
      [json({ timeout: 1e9 }), 400, /timeout/],
      [json({ envVars: { "A;B": "c" } }), 400, /envVars/],
      [json({ metadata: { a: 1 } }), 400, /metadata/],
      [json({ iam: { tokens: { a: {} } } }), 501, /credentials/],
      [json({ volumeMounts: [] }), 501, /volumes/],
      ["{", 400, /JSON/],
      [new Uint8Array(2 * 1024 * 1024), 413, /1 MiB/],
    ] as [BodyInit, number, RegExp][]
  ) {
    const [got, text] = await post(body);
    assertEquals(got, status, text);
    assertMatch(text, message);
  }
});
