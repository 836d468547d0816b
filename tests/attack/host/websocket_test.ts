/** WebSockets of a guest against the real proxy, broker and policy: secrets and model calls in frames. */
import { assertEquals } from "@std/assert";
import { TestNet } from "../../helper/net.ts";
import { rawSocketUpstream, upgradeHead } from "../../helper/websocket.ts";

Deno.test("model calls do not hide in a WebSocket: the upgrade at a provider's host is refused", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  for (
    const host of ["api.openai.com", "generativelanguage.googleapis.com", "eu-aiplatform.googleapis.com"]
  ) {
    const upstream = rawSocketUpstream(await net.leaf(host), () => Promise.resolve());
    target = upstream.target;
    const client = await net.tls(host);
    assertEquals((await client.ask(upgradeHead(host, "/v1/stream"))).status, 403);
    client.close();
    const { event, decision } = net.gate.entries.at(-1)!;
    assertEquals([event.http!.request.headers["upgrade"], decision!.rule.id], [
      ["websocket"],
      "block-model-websocket",
    ]);
    assertEquals(upstream.heads, []);
    upstream.close();
  }
});
