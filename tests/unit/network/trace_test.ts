/** Traces of requests, and of what follows from them. */
import { assertEquals } from "@std/assert";
import { ModelReader } from "../../../lib/network/model/mod.ts";
import { httpDraft } from "../../../lib/network/exchange/draft.ts";
import { added, ALL, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

Deno.test("an event of a request names the trace that its header claims, and its header stays", () => {
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const draftOf = (headers: [string, string][]) =>
    httpDraft({ actor: "vm" }, {
      method: "GET",
      scheme: "https",
      host: "a.example",
      port: 443,
      target: "/",
      headers,
      bytes: 0,
      body: { state: "missing", truncated: false },
    });
  const header: [string, string] = ["traceparent", `00-${trace}-00f067aa0ba902b7-01`];
  const traced = draftOf([header]);
  assertEquals(traced.common.trace_id, trace);
  assertEquals(traced.http?.request.headers.traceparent, [header[1]]);
  assertEquals(draftOf([header, header]).common.trace_id, undefined);
  assertEquals("trace_id" in draftOf([]).common, false);
});

const HOST = "api.anthropic.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

Deno.test(
  "the model call and the substitution of a request have its trace, those of the next request have none",
  world(added, async ({ open, refs }) => {
    let target = { hostname: "", port: 0 };
    const broker = await open(ALL);
    await using net = await TestNet.open({ target: () => target, broker, models: new ModelReader() });
    const upstream = fixedUpstream(OK, await net.leaf(HOST));
    target = upstream.target;
    const body = JSON.stringify({
      model: "claude-x",
      max_tokens: 1,
      messages: [{ role: "user", content: "hi" }],
    });
    for (const trace of [`Traceparent: 00-${TRACE}-00f067aa0ba902b7-01\r\n`, ""]) {
      const client = await net.tls(HOST);
      const head = `POST /v1/messages HTTP/1.1\r\nHost: ${HOST}\r\nX-Api-Key: ${refs.anthropic}\r\n${trace}` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
      assertEquals((await client.ask(head + body)).status, 200);
      client.close();
    }
    await net.idle();
    upstream.close();
    const traces = net.gate.entries.map(({ event: { common } }) => [common.event_type, common.trace_id]);
    const types = ["http.request", "model.call", "credential.substitution"];
    const byTrace = (trace: string | undefined) =>
      traces.filter(([, found]) => found === trace).map(([type]) => type).sort();
    assertEquals([byTrace(TRACE), byTrace(undefined)], [types.toSorted(), types.toSorted()]);
  }),
);
