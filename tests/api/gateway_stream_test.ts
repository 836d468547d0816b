/** Streams and WebSockets through the gateway, and their ends. */
import { assertEquals, assertMatch } from "@std/assert";
import { Gateway, options } from "./gateway_harness.ts";

Deno.test("gateway: streams arrive at once, and end when the client disconnects", options, async (t) => {
  await using gateway = await Gateway.start();

  await t.step(
    "the first server-sent event arrives while the stream is open, and a disconnect ends it upstream",
    async () => {
      const answer = await gateway.fetch("/run", { method: "POST", body: "{}" });
      assertEquals(answer.headers.get("content-type"), "text/event-stream");
      const reader = answer.body!.getReader();
      const { value } = await reader.read();
      assertMatch(new TextDecoder().decode(value), /^event: booted/);
      await reader.cancel();
      await gateway.service.aborted.promise;
    },
  );
});

Deno.test(
  "gateway: a client that disconnects before the response ends the request upstream",
  options,
  async () => {
    await using gateway = await Gateway.start();
    const connection = await Deno.connect({ port: gateway.port });
    await connection.write(
      new TextEncoder().encode(
        `POST /vms/a/exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${gateway.token}\r\nContent-Length: 2\r\n\r\n{}`,
      ),
    );
    while (gateway.service.seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    await new Promise((resolve) => setTimeout(resolve, 200));
    connection.close();
    await gateway.service.aborted.promise;
  },
);

Deno.test("gateway: WebSockets", options, async (t) => {
  await using gateway = await Gateway.start();
  const url = `ws://127.0.0.1:${gateway.port}`;

  await t.step("messages both ways, and the close code", async () => {
    const socket = new WebSocket(`${url}/terminal/demo?token=${gateway.token}`);
    socket.binaryType = "arraybuffer";
    const messages: unknown[] = [];
    const closed = new Promise<CloseEvent>((resolve) => socket.onclose = resolve);
    socket.onmessage = ({ data }) => {
      messages.push(data instanceof ArrayBuffer ? new Uint8Array(data) : data);
      if (messages.length === 1) socket.send(new Uint8Array([1, 2, 255]));
      if (messages.length === 2) socket.send("end");
    };
    const { code, reason } = await closed;
    assertEquals(messages, ["attached", new Uint8Array([1, 2, 255])]);
    assertEquals([code, reason], [4001, "ended"]);
    const [{ url: upstream, headers }] = gateway.service.seen;
    assertEquals(new URL(upstream).search, "");
    assertEquals(headers.authorization, undefined);
  });

  await t.step("the trace of the upgrade goes on to the service", async () => {
    const headers = { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", cookie: "a=b" };
    const socket = new WebSocket(`${url}/terminal/blocked?token=${gateway.token}`, { headers });
    await new Promise((resolve) => socket.onclose = resolve);
    const seen = gateway.service.seen.at(-1)!.headers;
    assertEquals([seen.traceparent, seen.cookie], [headers.traceparent, undefined]);
  });

  await t.step("a service that closes at once ends the client with its code and reason", async () => {
    for (let round = 0; round < 20; round++) {
      const socket = new WebSocket(`${url}/terminal/blocked?token=${gateway.token}`);
      const { code, reason } = await new Promise<CloseEvent>((resolve) => socket.onclose = resolve);
      assertEquals([code, reason], [1011, "blocked by policy"], `round ${round}`);
    }
  });

  await t.step(
    "refused without a token, with a foreign Origin, and by the service with its own error",
    async () => {
      const upgrade = (path: string, more = "") =>
        gateway.raw(
          `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
            `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${more}\r\n`,
        );
      assertMatch(await upgrade("/terminal/demo"), /401[^]*auth\.missing_token/);
      assertMatch(await upgrade("/terminal/demo?token=x"), /401[^]*auth\.bad_token/);
      assertMatch(await upgrade("/events", "Origin: http://evil.example\r\n"), /403[^]*auth\.bad_origin/);
      assertMatch(await upgrade(`/terminal/missing?token=${gateway.token}`), /404[^]*vm\.not_found/);
      assertMatch(await upgrade(`/terminal/a%2fb?token=${gateway.token}`), /401|404/);
      const plain = await gateway.fetch("/events");
      assertEquals([plain.status, (await plain.json()).code], [400, "request.invalid"]);
    },
  );
});
