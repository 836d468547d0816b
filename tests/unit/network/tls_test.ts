/** TLS termination, and readers of model calls. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { openCa } from "../../../lib/network/ca/mod.ts";
import { Terminator } from "../../../lib/network/guest/terminator.ts";
import type { ModelCall } from "../../../lib/network/mod.ts";
import type { Draft } from "../../../lib/policy/mod.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

Deno.test("a client without a server name gets a certificate for the address", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const upstream = fixedUpstream(OK, await net.leaf(ADDRESS));
  target = upstream.target;
  for (let at = 0; at < 2; at++) {
    const { stdout, stderr } = await net.curl(`https://${ADDRESS}/x`);
    assertStringIncludes(stdout, "200", stderr);
  }
  assertEquals(net.gate.entries.map(({ event }) => event.http!.request.host), [ADDRESS, ADDRESS]);
  upstream.close();
});

Deno.test("the port of TLS termination accepts the relay only", async () => {
  const dir = await Deno.makeTempDir();
  const ca = await openCa({ dir });
  const terminator = new Terminator(ca);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const [guest, host] = await Promise.all([
    Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }),
    listener.accept(),
  ]);
  const { inside, drained, close } = await terminator.accept(host, new Uint8Array(), HOST, ADDRESS);
  const { port } = inside.localAddr as Deno.NetAddr;
  for (const name of [HOST, "other.example.com"]) {
    const tcp = await Deno.connect({ hostname: "127.0.0.1", port });
    const stranger = await Deno.startTls(tcp, { hostname: name, caCerts: [ca.certificate] });
    // Its handshake may succeed, but its connection is closed without a byte.
    const read = await stranger.read(new Uint8Array(10)).catch(() => null);
    assertEquals(read, null);
    stranger.close();
  }
  close();
  await drained;
  terminator.close();
  guest.close();
  listener.close();
  await Deno.remove(dir, { recursive: true });
});

/** A reader that fails at one step; until then it collects its input in `seen`. */
function reader(failsAt: string, seen: string[]): ModelCall {
  const step = (name: string, text = "") => {
    if (name === failsAt) throw new Error(name);
    seen.push(`${name} ${text}`);
  };
  return {
    bodyMax: 1000,
    request(body) {
      step("request", new TextDecoder().decode(body));
      const draft: Draft = {
        common: { event_type: "model.call", source_engine: "model" },
        model: {
          request: {
            provider: "test",
            api_family: "test",
            model: "m-1",
            stream: false,
            operation: "chat",
            messages_count: 1,
            tools_count: 0,
            body: { state: "missing", truncated: false },
          },
        },
      };
      return {
        draft,
        isGuess: false,
        fault: () => undefined,
        bill: () => ({ parts: [], textual: false }),
        counted: () => undefined,
      };
    },
    head: (status) => step("head", `${status}`),
    chunk: (bytes) => step("chunk", new TextDecoder().decode(bytes)),
    end(error) {
      step("end", error);
      return { status: 200, tool_calls: [] };
    },
    use: (complete) => ({ complete }),
  };
}

Deno.test("a model call is an event of its own, and its reader never breaks the stream", async (t) => {
  for (const failsAt of ["never", "request", "head", "chunk", "end"]) {
    await t.step(`it fails at ${failsAt}`, async () => {
      const seen: string[] = [];
      const upstream = fixedUpstream(OK);
      await using net = await TestNet.open({
        target: () => upstream.target,
        models: { match: () => reader(failsAt, seen) },
      });
      const client = await net.client();
      const { status, body } = await client.ask(
        `POST /v1/chat HTTP/1.1\r\nHost: ${HOST}\r\nAccept-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi`,
      );
      assertEquals([status, body], [200, "ok"]);
      const families = net.gate.entries.map(({ event }) => event.common.event_type);
      assertEquals(families, failsAt === "request" ? ["http.request"] : ["http.request", "model.call"]);
      assert(net.gate.entries.every(({ outcome }) => outcome));
      if (failsAt === "never") {
        assertEquals(seen, ["request hi", "head 200", "chunk ok", "end "]);
        assertStringIncludes(upstream.requests[0], "accept-encoding: identity");
      }
      client.close();
      upstream.close();
    });
  }
});

Deno.test("a request whose reader fails is not sent where a rule reads models", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({
    rules: `[profiles.rules.no-m]\naction = "block"\nmatch = 'model.request.model == "m-1"'\n`,
    target: () => upstream.target,
    models: { match: () => reader("request", []) },
  });
  const client = await net.client();
  const { status } = await client.ask(`POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: 2\r\n\r\nhi`);
  assertEquals([status, upstream.requests.length], [400, 0]);
  client.close();
  upstream.close();
});

Deno.test("a model call that a rule blocks is not sent", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({
    rules: `[profiles.rules.no-m]\nname = "n"\naction = "block"\nmatch = 'model.request.model == "m-1"'\n`,
    target: () => upstream.target,
    models: { match: () => reader("never", []) },
  });
  const client = await net.client();
  const { status, body } = await client.ask(
    `POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: 2\r\n\r\nhi`,
  );
  assertEquals([status, JSON.parse(body).rule.id, upstream.requests.length], [403, "no-m", 0]);
  assertStringIncludes(net.gate.entries[0].outcome!.error!, "blocked");
  client.close();
  upstream.close();
});
