/** OAuth token endpoints under other spellings of their path: their tokens never reach the guest. */
import { assert, assertStringIncludes } from "@std/assert";
import { world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOST = "oauth2.googleapis.com";
const TOKEN = "an-opaque-access-token-0001";
const ANSWER = JSON.stringify({ access_token: TOKEN, refresh_token: `${TOKEN}-refresh`, expires_in: 3600 });

Deno.test("no spelling of a token endpoint hands its tokens to the guest", async (t) => {
  const paths = [
    "/token",
    "/%74oken",
    "/%2574oken",
    "//token",
    "/./token",
    "/x/../token",
    "/token/",
    "/token//",
    "/token;x",
    "/;x/token",
    "/TOKEN",
    "/%54oken",
    "/token%2f",
    "/token.json",
    "/token%20",
    "/token/.",
    "/\\token",
    "/token?x=1",
  ];
  await world([], async ({ open }) => {
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker: await open(["google"]) });
    const upstream = fixedUpstream(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${ANSWER.length}\r\n\r\n${ANSWER}`,
      await net.leaf(HOST),
    );
    target = upstream.target;
    for (const path of paths) {
      await t.step(path, async () => {
        const client = await net.tls(HOST);
        const { status, body } = await client.ask(
          `POST ${path} HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: 2\r\n\r\na=`,
        );
        client.close();
        assert(!body.includes(TOKEN), body);
        if (status === 200) assertStringIncludes(body, '"access_token":"credential:blake3:');
      });
    }
    assert(upstream.requests.length >= 12, `${upstream.requests.length} spellings reached the upstream`);
    upstream.close();
    assert(!JSON.stringify(net.gate.entries).includes(TOKEN));
  })();
});
