/**
 * A guest with the refs of a subscription's login: it uses the models, and can neither renew, end, move nor
 * read the login (§9, "Subscriptions").
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { CredentialBroker, CredentialStore } from "../../../lib/credential/mod.ts";
import { beginLogin } from "../../../lib/credential/subscription/oauth.ts";
import { Subscriptions } from "../../../lib/credential/subscription/subscriptions.ts";
import { testProvider } from "../../helper/identity_provider.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOST = "api.anthropic.com";
const TOKENS = "platform.claude.com";

Deno.test("a guest with a login's refs reaches the models and nothing of the login", async (t) => {
  await using provider = await testProvider("claude");
  const { facts, browse, definitions, folder, state } = provider;
  const store = new CredentialStore(join(folder, "credentials/store.json"));
  const logins = new Subscriptions(store, definitions);
  const waiting = await beginLogin(facts);
  await browse(waiting.url);
  const { access, refresh } = await logins.save({ login: "claude" }, await waiting.finished);
  const secrets = async () => {
    const { file } = store.read();
    return [...(await store.open(file!, file!.entries)).values()];
  };
  const known = new Set(await secrets());

  const open = (providers: string[], vm: string) => CredentialBroker.open({ store, providers, vm, logins });
  const [broker, other] = [await open(["anthropic"], "vm-a"), await open([], "vm-b")];
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target, broker });
  await using without = await TestNet.open({ target: () => target, broker: other });
  const upstreams = await Promise.all([HOST, TOKENS, "evil.example.com"].map(async (name) => ({
    name,
    served: fixedUpstream(
      "HTTP/1.1 401 Unauthorized\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nno",
      await net.leaf(name),
    ),
  })));
  const sent = () => upstreams.flatMap(({ served }) => served.requests).join("\n");
  const ask = async (from: TestNet, host: string, head: string, body = "") => {
    target = upstreams.find(({ name }) => name === host)!.served.target;
    const client = await from.tls(host);
    const answer = await client.ask(
      `${head}\r\nHost: ${host}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    client.close();
    for (const secret of known) assert(!JSON.stringify(answer).includes(secret));
    return answer;
  };
  const renewal = (token: string) =>
    JSON.stringify({ grant_type: "refresh_token", refresh_token: token, client_id: facts.client_id });
  const json = (path: string) => `POST ${path} HTTP/1.1\r\nContent-Type: application/json`;

  await t.step("the files of the guest hold refs only", () => {
    const [file] = broker.guestFiles();
    assertEquals(file.path, "/root/.claude/.credentials.json");
    const { claudeAiOauth } = JSON.parse(file.text);
    assertEquals([claudeAiOauth.accessToken, claudeAiOauth.refreshToken], [access.ref, refresh!.ref]);
    for (const secret of known) assert(!file.text.includes(secret));
    assertEquals(other.guestFiles(), []);
    assertEquals(broker.guestEnv(), {});
  });

  await t.step("a VM that uses another key neither sends a ref of the login nor renews with it", async () => {
    const elsewhere = await CredentialBroker.open({
      store,
      logins,
      providers: ["anthropic"],
      labels: [{ anthropic: ["work"] }],
      vm: "vm-c",
    });
    await using chosen = await TestNet.open({ target: () => target, broker: elsewhere });
    assertEquals([elsewhere.guestFiles(), elsewhere.guestEnv()], [[], {}]);
    const model = await ask(chosen, HOST, `GET /v1/models HTTP/1.1\r\nAuthorization: Bearer ${access.ref}`);
    assertStringIncludes(JSON.stringify(model), "this VM uses another key of the provider");
    const renewed = await ask(chosen, TOKENS, json("/v1/oauth/token"), renewal(refresh!.ref));
    assert(!JSON.stringify(renewed).includes("access_token"));
    assertEquals([sent().includes("Bearer"), state.grants], [false, ["authorization_code"]]);
    await elsewhere.close();
  });

  await t.step("a request to a model carries the token, and only there", async () => {
    const bearer = (path: string) => `GET ${path} HTTP/1.1\r\nAuthorization: Bearer ${access.ref}`;
    await ask(net, HOST, bearer("/v1/models?limit=1"));
    assertStringIncludes(sent(), `Bearer ${[...known][0]}`);
    for (
      const path of [
        "/api/oauth/claude_cli/create_api_key",
        "/v1/oauth/revoke",
        "/v1/models/../oauth/revoke",
        "/v1/models%2f..%2foauth",
        "/v1/modelsx",
        "/v1/organizations/api_keys",
      ]
    ) assertEquals((await ask(net, HOST, bearer(path))).status, 403, path);
    assertEquals((await ask(net, TOKENS, bearer("/v1/models"))).status, 403);
    assertEquals((await ask(net, "evil.example.com", bearer("/v1/models"))).status, 403);
    assertEquals((await ask(without, HOST, bearer("/v1/models"))).status, 403);
  });

  await t.step("the guest renews: the host answers with refs, and the provider is not asked", async () => {
    const before = sent();
    for (
      const body of [renewal(refresh!.ref), new URLSearchParams(JSON.parse(renewal(refresh!.ref))).toString()]
    ) {
      const { status, body: text } = await ask(net, TOKENS, json("/v1/oauth/token"), body);
      assertEquals(status, 200);
      const { access_token, refresh_token, expires_in } = JSON.parse(text);
      assertEquals([access_token, refresh_token], [access.ref, refresh!.ref]);
      assert(expires_in > 86_400);
    }
    assertEquals(sent(), before);
    assertEquals(state.grants, ["authorization_code"]);
  });

  await t.step("no ref of a login leaves in a body, by any other way", async () => {
    const before = sent();
    assertEquals((await ask(without, TOKENS, json("/v1/oauth/token"), renewal(refresh!.ref))).status, 403);
    const refused = [
      { grant_type: "authorization_code", code: refresh!.ref },
      { grant_type: "urn:ietf:params:oauth:grant-type:token-exchange", subject_token: access.ref },
      { grant_type: "refresh_token", refresh_token: access.ref },
      { token: refresh!.ref, token_type_hint: "refresh_token" },
    ];
    for (const body of refused) {
      const { status } = await ask(net, TOKENS, json("/v1/oauth/token"), JSON.stringify(body));
      assertEquals(status, 403, JSON.stringify(body));
    }
    const header = await ask(net, HOST, `GET /v1/models HTTP/1.1\r\nX-Api-Key: ${refresh!.ref}`);
    assertEquals(header.status, 403);
    assertEquals(sent(), before);
    // Elsewhere a body goes out without it.
    await ask(net, TOKENS, json("/v1/oauth/revoke"), JSON.stringify({ token: refresh!.ref }));
    assertStringIncludes(sent(), "credential-withheld");
    assert(!sent().includes(refresh!.ref));
  });

  await t.step("a token that ends is renewed before the request, once, and its refs stay", async () => {
    state.lifetime = 60;
    await logins.renew({ login: "claude" }, () => true);
    state.lifetime = 3600;
    await broker.refresh();
    const grants = state.grants.length;
    const attend = (by: CredentialBroker, host: string, path: string) =>
      by.attend({
        ...{ scheme: "https", host, port: 443, method: "GET", path },
        headers: [["authorization", `Bearer ${access.ref}`]],
      });
    // Not for a VM that may not use it, or for a request that may not carry it.
    await other.refresh();
    await attend(other, HOST, "/v1/models");
    await attend(broker, "evil.example.com", "/v1/models");
    await attend(broker, HOST, "/v1/oauth/revoke");
    assertEquals(state.grants.length, grants);
    await Promise.all([1, 2, 3].map(() => attend(broker, HOST, "/v1/models")));
    assertEquals(state.grants.length, grants + 1);
    await ask(net, HOST, `GET /v1/models HTTP/1.1\r\nAuthorization: Bearer ${access.ref}`);
    const now = await secrets();
    assertStringIncludes(sent(), `Bearer ${now[0]}`);
    // A token before the present one is still taken out of what is recorded.
    for (const secret of [...known, ...now]) assert(!broker.scrub(`x ${secret} x`).includes(secret));
  });

  for (const { served } of upstreams) served.close();
  for (const secret of [...known, ...await secrets()]) {
    assert(!JSON.stringify(net.gate.entries).includes(secret), "a secret is on record");
  }
  await broker.close();
  await other.close();
});
