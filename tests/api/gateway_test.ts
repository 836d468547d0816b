import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { BODY_MAX } from "../../lib/client/gateway/mod.ts";
import { exists } from "../helper/exists.ts";
import { Gateway, gatewayProcess, options } from "./gateway_harness.ts";

Deno.test("gateway: token, CORS, Host, allow-list, limits", options, async (t) => {
  await using gateway = await Gateway.start();
  const { port, token } = gateway;
  const code = async (answer: Response) => [answer.status, (await answer.json()).code];

  await t.step("its files are accessible to the user only", async () => {
    for (const name of ["gateway.token", "gateway.port", "gateway.pid"]) {
      assertEquals((await Deno.stat(join(gateway.run, name))).mode! & 0o777, 0o600);
    }
    assertMatch(token, /^[A-Za-z0-9]{64}$/);
    assertEquals(Number(await Deno.readTextFile(join(gateway.run, "gateway.pid"))), gateway.child.pid);
  });

  await t.step("health needs no token, and reports the service's state", async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/health`);
    assertEquals(await answer.json(), { ok: true, version: "0.1.0", service: true });
  });

  await t.step("responses of the service are passed on", async () => {
    const answer = await gateway.fetch("/vms/list");
    assertEquals([answer.status, await answer.json()], [200, { vms: [] }]);
    assertEquals(answer.headers.get("content-type"), "application/json");
    assertEquals(await code(await gateway.fetch("/vms/x/info")), [404, "vm.not_found"]);
    assertEquals((await gateway.fetch("/vms/x/delete", { method: "DELETE" })).status, 204);
  });

  await t.step("no token, an invalid one, and one in the query of an ordinary path are refused", async () => {
    const bare = (path: string, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers });
    const none = await bare("/vms/list");
    assertEquals(none.headers.get("www-authenticate"), "Bearer");
    assertEquals(await code(none), [401, "auth.missing_token"]);
    assertEquals(await code(await bare(`/vms/list?token=${token}`)), [401, "auth.missing_token"]);
    for (const value of [`Bearer ${token}x`, `Bearer ${token.slice(1)}`, `Basic ${token}`, "Bearer"]) {
      assertEquals(await code(await bare("/vms/list", { authorization: value })), [401, "auth.bad_token"]);
    }
  });

  await t.step("token, Host, cookies and hop-by-hop headers are not forwarded", async () => {
    gateway.service.seen.length = 0;
    await gateway.raw(
      `GET /vms/list?a=1&token=secret&%74oken=2&b=%2F HTTP/1.1\r\nHost: localhost:${port}\r\nAuthorization: Bearer ${token}\r\n` +
        `Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: x\r\nCookie: a=b\r\nX-Kept: yes\r\n\r\n`,
    );
    const [{ url, headers }] = gateway.service.seen;
    assertEquals(new URL(url).search, "?a=1&b=%2F");
    assertEquals(headers, { host: "service", "x-kept": "yes" });
  });

  await t.step("only pages of this machine may read responses", async () => {
    for (const origin of ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"]) {
      const answer = await gateway.fetch("/vms/list", { headers: { origin } });
      assertEquals(answer.headers.get("access-control-allow-origin"), origin);
      await answer.body?.cancel();
      const preflight = await fetch(`http://127.0.0.1:${port}/vms/create`, {
        method: "OPTIONS",
        headers: { origin, "access-control-request-method": "POST" },
      });
      assertEquals(preflight.status, 204);
      assertEquals(preflight.headers.get("access-control-allow-origin"), origin);
      assertMatch(preflight.headers.get("access-control-allow-headers")!, /authorization/);
    }
    for (const origin of ["http://evil.example", "http://localhost.evil.example", "null", "file://"]) {
      const answer = await gateway.fetch("/vms/list", { headers: { origin } });
      assertEquals(answer.headers.get("access-control-allow-origin"), null);
      await answer.body?.cancel();
      const preflight = await fetch(`http://127.0.0.1:${port}/vms/create`, {
        method: "OPTIONS",
        headers: { origin, "access-control-request-method": "POST" },
      });
      assertEquals(await code(preflight), [403, "auth.bad_origin"]);
    }
  });

  await t.step("a Host that is not this machine is refused", async () => {
    for (
      const host of ["evil.example", "localhost.evil.example", "localhost:80@evil.example", "127.0.0.2", ""]
    ) {
      const answer = await gateway.raw(`GET /health HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      assertMatch(answer, /^HTTP\/1\.1 40[03] /, host);
      assert(!answer.includes('"ok"'), host);
    }
    assertMatch(await gateway.raw("GET /health HTTP/1.0\r\n\r\n"), /403[^]*auth\.bad_host/);
    assertMatch(
      await gateway.raw("GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
      /403[^]*auth\.bad_host/,
    );
  });

  await t.step("only the service's routes exist", async () => {
    gateway.service.seen.length = 0;
    const head = `Host: localhost\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n\r\n`;
    const bad = [
      "GET /internal",
      "GET /vms/list/",
      "GET //vms/list",
      "GET /vms/../version",
      "GET /vms/%2e%2e/info",
      "GET /vms/./info",
      "GET /vms/a%2Fb/info",
      "GET /vms/a%5cb/info",
      "GET /vms/a%252fb/info",
      "GET /vms/%00/info",
      "GET /vms/%ff/info",
      "GET /vms//info",
      "GET /vms/a/b/info",
      "GET /VMS/list",
      "OPTIONS *",
    ];
    for (const line of bad) {
      assertMatch(
        await gateway.raw(`${line} HTTP/1.1\r\n${head}`),
        /^HTTP\/1\.1 404 [^]*(route\.not_found|$)/,
        line,
      );
    }
    for (const line of ["PUT /vms/list", "TRACE /vms/list"]) {
      assertMatch(
        await gateway.raw(`${line} HTTP/1.1\r\n${head}`),
        /^HTTP\/1\.1 405 [^]*allow: GET, HEAD, OPTIONS[^]*route\.method_not_allowed/,
        line,
      );
    }
    for (const line of ["GET /vms\\list", "GET /vms/é/info"]) {
      assertMatch(await gateway.raw(`${line} HTTP/1.1\r\n${head}`), /^HTTP\/1\.1 400 /, line);
    }
    assertEquals(gateway.service.seen, []);
    assertMatch(await gateway.raw(`GET /vms/a%20b/info HTTP/1.1\r\n${head}`), /vm\.not_found/);
  });

  await t.step("ambiguous requests are refused", async () => {
    gateway.service.seen.length = 0;
    const head = `POST /run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n`;
    for (
      const rest of [
        "Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Content-Length: +3\r\n\r\nabc",
        "Content-Length : 3\r\n\r\nabc",
        "X: a\r\n b\r\nBad\r\n\r\n",
      ]
    ) {
      assertMatch(await gateway.raw(head + rest), /^HTTP\/1\.1 400 /, rest);
    }
    assertEquals(gateway.service.seen, []);
  });

  await t.step("bodies are limited to 10 MiB, with a length and without, but for files", async () => {
    const path = "/vms/a/files/content?path=x";
    const large = await gateway.fetch(path, { method: "POST", body: new Uint8Array(BODY_MAX + 1) });
    assertEquals(await large.json(), { path: "x", size: BODY_MAX + 1 });
    const over = await gateway.fetch("/vms/create", { method: "POST", body: new Uint8Array(BODY_MAX + 1) });
    assertEquals(await code(over), [413, "request.too_large"]);
    const chunked = (size: number) =>
      new ReadableStream({
        pull(controller) {
          if (size <= 0) return controller.close();
          controller.enqueue(new Uint8Array(Math.min(size, 100_000)));
          size -= 100_000;
        },
      });
    const streamed = await gateway.fetch(path, { method: "POST", body: chunked(3_000_000) });
    assertEquals(await streamed.json(), { path: "x", size: 3_000_000 });
    const endless = await gateway.fetch("/vms/create", { method: "POST", body: chunked(BODY_MAX + 1) });
    assertEquals(await code(endless), [413, "request.too_large"]);
    for (const size of [0, 1, 65_536, 65_537, 5_000_000]) {
      const answer = await gateway.fetch(`/vms/a/files/content?path=${size}`);
      assertEquals((await answer.bytes()).length, size);
    }
  });

  await t.step("a client that still sends its body gets the answer that came before its end", async () => {
    const encoder = new TextEncoder();
    const piece = encoder.encode(`10000\r\n${"x".repeat(0x10000)}\r\n`);
    for (const [path, expected] of [["/vms/full/files/content?path=x", "500"], ["/nowhere", "404"]]) {
      using connection = await Deno.connect({ transport: "unix", path: join(gateway.run, "gateway.sock") });
      const writer = connection.writable.getWriter();
      const answers = connection.readable.pipeThrough(new TextDecoderStream()).getReader();
      const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n`;
      await writer.write(encoder.encode(head));
      for (let at = 0; at < 4; at++) await writer.write(piece);
      assertMatch((await answers.read()).value!, new RegExp(`^HTTP/1\\.1 ${expected} `));
      // More than the buffers of a socket hold.
      for (let at = 0; at < 32; at++) await writer.write(piece);
      await writer.write(encoder.encode("0\r\n\r\n"));
    }
  });

  await t.step("after 20 invalid tokens the response is 429; the valid token still works", async () => {
    let limited: Response | undefined;
    for (let attempt = 0; attempt < 22; attempt++) {
      const answer = await gateway.fetch("/vms/list", { headers: { authorization: "Bearer wrong" } });
      if (answer.status === 429) limited = answer;
      else await answer.body?.cancel();
    }
    assert(Number(limited?.headers.get("retry-after")) > 0);
    assertEquals(await code(limited!), [429, "auth.too_many_failures"]);
    assertEquals((await gateway.fetch("/vms/list")).status, 200);
  });
});

Deno.test("gateway: 502 without the service, and normal responses when it is back", options, async () => {
  await using gateway = await Gateway.start({ service: false });
  const down = async () => {
    const answer = await gateway.fetch("/vms/list");
    const body = await answer.json();
    return [answer.status, body.code, /sbx start/.test(body.hint)];
  };
  assertEquals(await down(), [502, "service.unreachable", true]);
  assertEquals((await (await fetch(`http://127.0.0.1:${gateway.port}/health`)).json()).service, false);
  gateway.service.start();
  assertEquals((await gateway.fetch("/vms/list")).status, 200);
  await gateway.service.stop();
  assertEquals(await down(), [502, "service.unreachable", true]);
});

Deno.test("gateway: SIGTERM removes its files", options, async () => {
  await using gateway = await Gateway.start();
  gateway.child.kill("SIGTERM");
  assertEquals((await gateway.child.status).code, 0);
  for (const name of ["gateway.token", "gateway.port", "gateway.pid"]) {
    assertEquals(await exists(join(gateway.run, name)), false, name);
  }
});

Deno.test(
  "gateway: a port in use, a second start in one home, and unknown arguments are errors",
  options,
  async () => {
    await using gateway = await Gateway.start();
    const failed = async (home: string, args: string[]) => {
      const { code, stderr } = await gatewayProcess(home, args).output();
      return [code, new TextDecoder().decode(stderr)] as const;
    };
    const other = await Deno.makeTempDir();
    const [taken, takenError] = await failed(other, ["--port", String(gateway.port)]);
    assertEquals(taken, 1);
    assertMatch(takenError, /gateway\.port_taken[^]*SBX_GATEWAY_PORT/);
    assertEquals(await exists(join(other, "run", "gateway.pid")), false);
    const [second, secondError] = await failed(gateway.home, ["--port", "0"]);
    assertEquals(second, 1);
    assertMatch(secondError, /gateway\.already_running/);
    for (const args of [["--prot", "1"], ["--port", "70000"], ["--port", "x"], ["now"]]) {
      assertEquals((await failed(other, args))[0], 2, args.join(" "));
    }
    await Deno.remove(other, { recursive: true });
  },
);
