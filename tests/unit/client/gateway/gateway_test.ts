import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { routeTable } from "../../../../lib/client/api/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { methodMatcher, Upstream } from "../../../../lib/client/gateway/mod.ts";
import { parseTarget } from "../../../../lib/client/gateway/handler.ts";
import {
  BAD_TOKEN_WINDOW_MS,
  BAD_TOKENS_MAX,
  newToken,
  TokenGate,
} from "../../../../lib/client/gateway/token.ts";
import { runChild } from "../../../helper/child.ts";

Deno.test("token: 64 characters, using the whole alphabet, never the same", () => {
  const tokens = Array.from({ length: 200 }, newToken);
  for (const token of tokens) assertMatch(token, /^[A-Za-z0-9]{64}$/);
  assertEquals(new Set(tokens).size, tokens.length);
  assertEquals(new Set(tokens.join("")).size, 62);
});

Deno.test("token: the 21st invalid one within a minute exceeds the limit; the valid one always works", () => {
  let now = 1000;
  const gate = new TokenGate("right", () => now);
  const code = (token?: string) => assertThrows(() => gate.check(token), SbxError).code;
  assertEquals(code(undefined), "auth.missing_token");
  for (let count = 0; count < BAD_TOKENS_MAX; count++) assertEquals(code("wrong"), "auth.bad_token");
  assertEquals(code("wrong"), "auth.too_many_failures");
  assertEquals(gate.retryAfter(), 60);
  gate.check("right");
  now += BAD_TOKEN_WINDOW_MS / 2;
  assertEquals(code("righ"), "auth.too_many_failures");
  now += BAD_TOKEN_WINDOW_MS;
  assertEquals(code("righty"), "auth.bad_token");
});

Deno.test("target: the token is removed from the query, the rest is unchanged", () => {
  const cases: [string, string, string | undefined][] = [
    ["http://localhost/a?token=x", "", "x"],
    ["http://localhost/a?b=%2F&token=x&c", "?b=%2F&c", "x"],
    ["http://localhost/a?%74oken=x&tokens=1", "?tokens=1", "x"],
    ["http://localhost/a?b=1", "?b=1", undefined],
    ["http://localhost/a?&&", "", undefined],
    ["http://localhost/a?token", "", ""],
  ];
  for (const [url, query, token] of cases) {
    const target = parseTarget(url);
    assertEquals([target.path, target.query, target.token], ["/a", query, token], url);
  }
  assertEquals(parseTarget("http://evil@localhost:1/a").authority, "evil@localhost:1");
  for (
    const url of [
      "http://localhost/a b",
      "http://localhost/a\r\nX: y",
      "http://localhost/ä",
      "http://l/a#b",
      "http://l\\a",
    ]
  ) {
    assertThrows(() => parseTarget(url), SbxError, "characters");
  }
});

Deno.test("routes: every route of the table matches, and random paths only if URL parsing does not change them", () => {
  const table = routeTable();
  const methodsOf = methodMatcher(table);
  for (const { method, path } of table) {
    assert(methodsOf(path.replace(/\{\w+\}/g, "a.b-c~1")).includes(method), path);
  }
  let seed = 7;
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below;
  const parts = [
    "/",
    "vms",
    "list",
    "a",
    "..",
    ".",
    "%2e",
    "%2F",
    "%5c",
    "%",
    "%00",
    "\\",
    "info",
    "?",
    ";",
    "%25",
  ];
  for (let round = 0; round < 20_000; round++) {
    const path = "/" + Array.from({ length: random(8) }, () => parts[random(parts.length)]).join("");
    if (methodsOf(path).length === 0) continue;
    assertEquals(new URL(path, "http://service").pathname, path);
    assert(!/%2f|%5c|%00|%25|\/\.{1,2}(\/|$)/i.test(path), path);
  }
});

Deno.test("permissions: after they are revoked, run, FFI, env, sys and requests for more fail", async () => {
  const module = new URL("../../../../lib/client/gateway/permission/mod.ts", import.meta.url).href;
  const attempt = `
    import { dropPermissions } from ${JSON.stringify(module)};
    await dropPermissions();
    const tries = {
      run: () => new Deno.Command("true").outputSync(),
      ffi: () => Deno.dlopen("libc.so.6", {}),
      env: () => Deno.env.get("HOME"),
      sys: () => Deno.hostname(),
      back: async () => { if ((await Deno.permissions.request({ name: "run" })).state !== "granted") throw new Deno.errors.NotCapable(); },
    };
    const granted = [];
    for (const [name, act] of Object.entries(tries)) {
      try { await act(); granted.push(name); } catch (e) { if (!(e instanceof Deno.errors.NotCapable) && !/Requires/.test(e.message)) granted.push(name + ": " + e); }
    }
    console.log(JSON.stringify(granted));`;
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(file, attempt);
  const { stdout } = await runChild(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", "--quiet", file],
  });
  assertEquals(JSON.parse(new TextDecoder().decode(stdout)), []);
  await Deno.remove(file);
});

/** A service that answers every request with the same bytes, in the given pieces. */
async function serveBytes(
  pieces: Uint8Array[],
): Promise<{ upstream: Upstream; path: string } & AsyncDisposable> {
  const dir = await Deno.makeTempDir();
  const path = `${dir}/s`;
  const listener = Deno.listen({ transport: "unix", path });
  const serving = (async () => {
    for await (const connection of listener) {
      await connection.read(new Uint8Array(4096));
      for (const piece of pieces) {
        await connection.write(piece);
        await new Promise((resolve) => setTimeout(resolve));
      }
      connection.close();
    }
  })().catch(() => {});
  return {
    upstream: new Upstream(path),
    path,
    async [Symbol.asyncDispose]() {
      listener.close();
      await serving;
      await Deno.remove(dir, { recursive: true });
    },
  };
}

async function request(pieces: Uint8Array[]): Promise<string> {
  await using service = await serveBytes(pieces);
  const { status, body } = await service.upstream.send({ method: "POST", target: "/x", headers: [] });
  const text = await new Response(body).text();
  service.upstream.close();
  return `${status} ${text}`;
}

const encode = (text: string) => new TextEncoder().encode(text);

Deno.test("upstream: responses are the same however their bytes are cut", async () => {
  const answers: [string, string][] = [
    ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 hello"],
    ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "404 "],
    [
      "HTTP/1.1 200\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
      "200 abc0123456789",
    ],
    ["HTTP/1.1 200 OK\r\nx: 1\r\n\r\nuntil the end", "200 until the end"],
    ["HTTP/1.1 204 No Content\r\n\r\n", "204 "],
  ];
  for (const [text, expected] of answers) {
    const bytes = encode(text);
    for (let cut = 1; cut < bytes.length; cut += 3) {
      assertEquals(
        await request([bytes.subarray(0, cut), bytes.subarray(cut)]),
        expected,
        `${expected} at ${cut}`,
      );
    }
    assertEquals(await request([...bytes].map((byte) => new Uint8Array([byte]))), expected);
  }
});

Deno.test("upstream: malformed and incomplete responses are errors, never a partial body that looks complete", async () => {
  const bad = [
    "",
    "HTTP/1.1 20",
    "SSH-2.0-x\r\n\r\n",
    "HTTP/1.1 999 X\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n",
    "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${"1".repeat(70_000)}`,
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
    `HTTP/1.1 200 OK\r\nx: ${"y".repeat(70_000)}\r\n\r\n`,
  ];
  for (const text of bad) {
    await assertRejects(() => request([encode(text)]), Error, undefined, text.slice(0, 60));
  }
});

Deno.test("upstream: a connection that the service closed while idle is not reused", async () => {
  const dir = await Deno.makeTempDir();
  const path = `${dir}/s`;
  const serve = () =>
    Deno.serve({ path, onListen() {} }, async (request) => new Response(await request.text()));
  const upstream = new Upstream(path);
  const ask = async (text: string) => {
    const { body } = await upstream.send({ method: "POST", target: "/", headers: [], body: encode(text) });
    return await new Response(body).text();
  };
  for (let round = 0; round < 3; round++) {
    const server = serve();
    assertEquals(await Promise.all(["a", "b", "c"].map(ask)), ["a", "b", "c"]);
    assertEquals(await ask("d"), "d");
    await server.shutdown();
    await Deno.remove(path).catch(() => {});
  }
  const error = await assertRejects(() => ask("e"), SbxError);
  assertEquals(error.code, "service.unreachable");
  upstream.close();
  await Deno.remove(dir, { recursive: true });
});
