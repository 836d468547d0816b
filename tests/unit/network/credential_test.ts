/** Secrets and refs through the proxy, with the real broker (docs/design/contracts/09-credentials.md §9). */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gzipSync } from "node:zlib";
import { added, KEY, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream, rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";

const OWNER = "api.anthropic.com";
const OTHER = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/** All recorded entries as text. */
const recorded = (net: TestNet) => JSON.stringify(net.gate.entries);
const outcomes = (net: TestNet) =>
  net.gate.entries.filter(({ event }) => event.credential).map(({ event }) =>
    event.credential!.substitution.outcome
  );

/** Answers that repeat a secret: read whole, and relayed as they come. */
const REPEATED: Record<string, (body: string) => string> = {
  "in a short body": (body) => `content-length: ${body.length}\r\n\r\n${body}`,
  "in chunks": (body) =>
    `transfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
};

Deno.test(
  "a ref becomes the secret for its owner's host only; redirects are not followed",
  world(added, async ({ open, refs }) => {
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker: await open() });
    const ask = async (host: string, header: string) => {
      const client = await net.tls(host);
      const answer = await client.ask(`GET /v1/x HTTP/1.1\r\nHost: ${host}\r\n${header}\r\n\r\n`);
      client.close();
      return answer;
    };
    const redirect = `HTTP/1.1 302 Found\r\nlocation: https://${OTHER}/v1/x\r\ncontent-length: 0\r\n\r\n`;
    const owner = fixedUpstream(redirect, await net.leaf(OWNER));
    target = owner.target;
    const answer = await ask(OWNER, `X-Api-Key: ${refs.anthropic}`);
    assertEquals([answer.status, answer.headers.get("location")], [302, `https://${OTHER}/v1/x`]);
    assertStringIncludes(owner.requests[0], `x-api-key: ${KEY.anthropic}\r\n`);
    assertEquals(net.gate.entries[0].event.http!.request.headers["x-api-key"], [refs.anthropic]);

    const other = fixedUpstream(OK, await net.leaf(OTHER));
    target = other.target;
    const denied = await ask(OTHER, `X-Api-Key: ${refs.anthropic}`);
    assertEquals([denied.status, JSON.parse(denied.body).code], [403, "credential.denied"]);
    assertEquals(other.requests, []);
    const unknown = await ask(OTHER, `Authorization: Bearer credential:blake3:${"0".repeat(64)}`);
    assertEquals([unknown.status, other.requests.length], [403, 0]);
    assertEquals(outcomes(net), ["injected", "denied", "denied"]);
    const guarded = net.gate.entries.filter(({ decision }) => decision?.rule.id === "guard-credential");
    assertEquals(
      guarded.map(({ event }) => event.common.event_type),
      ["http.request", "credential.substitution", "http.request", "credential.substitution"],
    );
    assert(!recorded(net).includes(KEY.anthropic));
    owner.close();
    other.close();
  }),
);

Deno.test(
  "a secret that the guest sends is sent unchanged, and recorded as a ref",
  world([], async ({ open }) => {
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker: await open(["openai"]) });
    const upstream = fixedUpstream(OK, await net.leaf("api.openai.com"));
    target = upstream.target;
    const client = await net.tls("api.openai.com");
    const head =
      `GET /v1/models HTTP/1.1\r\nHost: api.openai.com\r\nAuthorization: Bearer ${KEY.openai}\r\n\r\n`;
    assertEquals((await client.ask(head)).status, 200);
    assertStringIncludes(upstream.requests[0], `authorization: Bearer ${KEY.openai}`);
    assert(!recorded(net).includes(KEY.openai));
    assertStringIncludes(recorded(net), "credential:blake3:");
    client.close();
    upstream.close();
  }),
);

Deno.test(
  "a secret or a ref in a body, long or short and cut anywhere, is neither sent nor recorded",
  world(added, async ({ open, refs }) => {
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker: await open() });
    const received: string[] = [];
    const upstream = rawUpstream(async (client) => {
      const head = await client.until("\r\n\r\n");
      let body = "";
      if (head.includes("chunked")) {
        for (
          let size = parseInt(await client.until("\r\n"), 16);
          size;
          size = parseInt(await client.until("\r\n"), 16)
        ) {
          body += await client.take(size);
          await client.take(2);
        }
        await client.take(2);
      } else body = await client.take(Number(/content-length: (\d+)/.exec(head)![1]));
      received.push(body);
      await client.send(OK);
    }, await net.leaf(OTHER));
    target = upstream.target;
    for (const [at, what] of [KEY.github, refs.github].entries()) {
      for (const padding of [0, 100_000]) {
        const body = `{"a":"${"x".repeat(padding)} ${what} y"}`;
        const cut = body.indexOf(what) + 9;
        const client = await net.tls(OTHER);
        await client.send(`POST /p HTTP/1.1\r\nHost: ${OTHER}\r\nTransfer-Encoding: chunked\r\n\r\n`);
        for (const part of [body.slice(0, cut), body.slice(cut)]) {
          await client.send(`${part.length.toString(16)}\r\n${part}\r\n`);
        }
        assertEquals((await client.ask("0\r\n\r\n")).status, 200, `${at} ${padding}`);
        client.close();
      }
    }
    assertEquals(received.length, 4);
    assertEquals(outcomes(net), ["denied", "denied", "denied", "denied"]);
    for (const body of received) {
      assert(!body.includes(KEY.github) && !body.includes("credential:blake3:"), body.slice(-200));
      JSON.parse(body);
    }
    assert(!recorded(net).includes(KEY.github));
    upstream.close();
  }),
);

Deno.test(
  "a secret or a ref in an encoded body is not sent either; other encoded bodies are sent unchanged",
  world(added, async ({ open, refs }) => {
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker: await open() });
    const received: { head: string; body: string }[] = [];
    const upstream = rawUpstream(async (client) => {
      const head = await client.until("\r\n\r\n");
      received.push({ head, body: await client.take(Number(/content-length: (\d+)/.exec(head)![1])) });
      await client.send(OK);
    }, await net.leaf(OTHER));
    target = upstream.target;
    for (const what of [KEY.github, refs.github, "nothing of interest"]) {
      const zipped = gzipSync(`{"a":"${what}"}`);
      const client = await net.tls(OTHER);
      await client.send(
        `POST /p HTTP/1.1\r\nHost: ${OTHER}\r\nContent-Encoding: gzip\r\nContent-Length: ${zipped.length}\r\n\r\n`,
      );
      assertEquals((await client.ask(zipped)).status, 200, what);
      client.close();
    }
    const [secret, ref, plain] = received;
    for (const { head, body } of [secret, ref]) {
      assert(!head.includes("content-encoding"), head);
      assertEquals(Object.keys(JSON.parse(body)), ["a"]);
      assert(!body.includes(KEY.github) && !body.includes("credential:blake3:"), body);
    }
    assertStringIncludes(plain.head, "content-encoding: gzip");
    assertStringIncludes(plain.head, `content-length: ${gzipSync('{"a":"nothing of interest"}').length}\r\n`);
    assertEquals(outcomes(net), ["denied", "denied"]);
    assert(!recorded(net).includes(KEY.github));
    upstream.close();
  }),
);

Deno.test(
  "revoking a credential ends the exchanges that use it",
  world(added, async ({ open, refs, store }) => {
    let target = { hostname: "", port: 0 };
    const broker = await open();
    await using net = await TestNet.open({ target: () => target, broker });
    const upstream = rawUpstream(async (client) => {
      await client.until("\r\n\r\n");
      await client.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\none \r\n");
      await client.rest();
    }, await net.leaf(OWNER));
    target = upstream.target;
    const client = await net.tls(OWNER);
    await client.send(`GET /v1/x HTTP/1.1\r\nHost: ${OWNER}\r\nX-Api-Key: ${refs.anthropic}\r\n\r\n`);
    await client.until("\r\n\r\n");
    await store.revoke(refs.anthropic);
    await broker.refresh();
    const got = await client.rest();
    assert(!got.endsWith("0\r\n\r\n"), got);
    client.close();
    await net.idle();
    await eventually("the upstream connection is closed", () => net.proxy.size.upstreams === 0);
    const entry = net.gate.entries.find(({ event }) => event.http)!;
    assert(entry.outcome!.error);
    const again = await net.tls(OWNER);
    const denied = await again.ask(
      `GET /v1/x HTTP/1.1\r\nHost: ${OWNER}\r\nX-Api-Key: ${refs.anthropic}\r\n\r\n`,
    );
    assertEquals(denied.status, 403);
    again.close();
    upstream.close();
  }),
);

for (const [how, bodyOf] of Object.entries(REPEATED)) {
  Deno.test(
    `a secret that the upstream repeats ${how} comes back as a ref, and is on record`,
    world(added, async ({ open, refs }) => {
      let target = { hostname: "", port: 0 };
      await using net = await TestNet.open({ target: () => target, broker: await open() });
      const upstream = fixedUpstream(
        `HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nx-echo: ${KEY.anthropic}\r\n` +
          bodyOf(JSON.stringify({ you_sent: KEY.anthropic })),
        await net.leaf(OWNER),
      );
      target = upstream.target;
      const client = await net.tls(OWNER);
      const answer = await client.ask(
        `GET /v1/x HTTP/1.1\r\nHost: ${OWNER}\r\nAccept-Encoding: gzip\r\nX-Api-Key: ${refs.anthropic}\r\n\r\n`,
      );
      assertEquals([answer.status, JSON.parse(answer.body).you_sent], [401, refs.anthropic]);
      const headers = JSON.stringify([...answer.headers]);
      assert(!headers.includes(KEY.anthropic), headers);
      assertStringIncludes(upstream.requests[0], "accept-encoding: identity");
      assert(!recorded(net).includes(KEY.anthropic));
      client.close();
      await net.idle();
      const substitutions = net.gate.entries.flatMap(({ event }) => event.credential?.substitution ?? []);
      assertEquals(substitutions.map(({ location, outcome }) => [location, outcome]), [
        ["x-api-key", "injected"],
        ["x-echo", "brokered"],
        ["response body", "brokered"],
      ]);
      upstream.close();
    }),
  );
}
