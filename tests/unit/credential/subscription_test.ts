/**
 * Logins of subscriptions against a real authorization server in the published shapes (§9, "Subscriptions").
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CredentialBroker, CredentialStore, DEFINITIONS } from "../../../lib/credential/mod.ts";
import type { OauthFacts } from "../../../lib/credential/provider.ts";
import { beginLogin, renewLogin, waysOf } from "../../../lib/credential/subscription/oauth.ts";
import { loginFetch } from "../../../lib/credential/subscription/fetch.ts";
import { Subscriptions } from "../../../lib/credential/subscription/subscriptions.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { HostLogins } from "../../../lib/service/contract/logins.ts";
import { limitChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";
import { type TestProvider, testProvider } from "../../helper/identity_provider.ts";

interface World extends TestProvider {
  store: CredentialStore;
  logins: Subscriptions;
}

function withProvider(login: string, run: (world: World) => Promise<void>) {
  return async () => {
    await using provider = await testProvider(login);
    const store = new CredentialStore(join(provider.folder, "credentials/store.json"));
    await run(Object.assign(provider, { store, logins: new Subscriptions(store, provider.definitions) }));
  };
}

/** A finished login, stored. */
async function loggedIn({ facts, browse, logins }: World, label?: string) {
  const waiting = await beginLogin(facts);
  assertEquals((await browse(waiting.url)).status, 200);
  return await logins.save({ login: facts.login, ...(label && { label }) }, await waiting.finished);
}

async function secretsOf(store: CredentialStore): Promise<string[]> {
  const { file } = store.read();
  return [...(await store.open(file!, file!.entries)).values()];
}

const hasCode = (expected: string) => (error: unknown) =>
  error instanceof SbxError && error.code === expected;
async function fails(run: Promise<unknown>, expected: string, text: string): Promise<void> {
  const error = await assertRejects(() => run, SbxError);
  assert(hasCode(expected)(error), `${error.code}: ${error.message}`);
  assert(error.message.includes(text), error.message);
}

for (const login of ["claude", "codex", "gemini"]) {
  Deno.test(
    `${login}: a login in the browser, its renewal with rotation, and no secret outside the store`,
    withProvider(login, async (world) => {
      const { facts, store, logins, state } = world;
      const first = await loggedIn(world);
      assertEquals(state.grants, ["authorization_code"]);
      assertEquals(state.bodies[0].startsWith("{"), facts.body === "json");
      assertEquals(first.terms.account, login === "claude" ? "uuid-of-alice" : "alice");
      const before = await secretsOf(store);
      await logins.renew({ login }, () => true);
      const second = logins.find({ login })!;
      assertEquals([second.access.ref, second.refresh!.ref], [first.access.ref, first.refresh!.ref]);
      const after = await secretsOf(store);
      assertEquals(after.length, 2);
      assert(after.every((secret) => !before.includes(secret)), "both tokens are new ones");
      const text = await Deno.readTextFile(store.path);
      for (const secret of [...before, ...after]) assert(!text.includes(secret));
      if (login === "codex") assertEquals(second.terms.facts.account_id, "account-of-alice");
    }),
  );
}

Deno.test("a login without a network says which host is not reached, and what to do", async () => {
  const error = await assertRejects(() => loginFetch()("https://127.0.0.1:1/token", {}), SbxError);
  assertEquals([error.code, error.message, error.hint], [
    "login.failed",
    "127.0.0.1:1 cannot be reached",
    "check that this machine is connected to the network",
  ]);
});

Deno.test(
  "a logout ends a login whose code is being exchanged",
  withProvider("claude", async ({ state, browse, logins }) => {
    const host = new HostLogins(logins);
    const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    state.token = async (answer) => {
      asked.resolve();
      await answered.promise;
      return answer;
    };
    const { url } = await host.begin("claude", {});
    await browse(url);
    await asked.promise;
    await fails(host.remove({ login: "claude" }), "login.not_found", "no such login");
    answered.resolve();
    await fails(host.state({ login: "claude" }), "login.failed", "cancelled");
    assertEquals(logins.list(), []);
  }),
);

Deno.test(
  "a pasted code of this login is taken, another one is not",
  withProvider("claude", async ({ facts, browse }) => {
    const waiting = await beginLogin(facts, { way: "paste" });
    const page = new URL((await browse(waiting.url)).url);
    const [given, state] = [page.searchParams.get("code"), page.searchParams.get("state")];
    for (const text of ["", "abc", `${given}#other-state`, page.href.replace(state!, "other-state")]) {
      try {
        waiting.paste(text);
        throw new Error(`taken: ${text}`);
      } catch (error) {
        assert(hasCode("login.failed")(error), String(error));
      }
    }
    waiting.paste(`${given}#${state}\n`);
    assert((await waiting.finished).refresh);
  }),
);

Deno.test(
  "a redirect with another state changes nothing; a refusal ends the login; so does its time",
  withProvider("codex", async ({ facts, browse, state }) => {
    const waiting = await beginLogin(facts);
    const redirect = new URL(new URL(waiting.url).searchParams.get("redirect_uri")!);
    redirect.search = "?code=stolen-code&state=guessed";
    const answer = await fetch(redirect);
    assertEquals(answer.status, 400);
    await answer.body?.cancel();
    assertEquals((await browse(waiting.url)).status, 200);
    assert((await waiting.finished).access);
    state.denies = true;
    const refused = await beginLogin(facts);
    await browse(refused.url);
    await fails(refused.finished, "login.failed", "refused: access_denied");
    await fails((await beginLogin(facts, { waitMs: 1 })).finished, "login.timeout", "not finished within");
    const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = taken.addr as Deno.NetAddr;
    await fails(
      beginLogin({ ...facts, redirect: { ...facts.redirect!, port } }),
      "login.failed",
      `port ${port}`,
    );
    taken.close();
  }),
);

Deno.test(
  "a code is exchanged with the verifier of its own login only",
  withProvider("codex", async ({ facts, browse }) => {
    const [one, two] = [await beginLogin(facts), await beginLogin(facts)];
    // The redirect of the first, with the challenge of the second.
    const mixed = new URL(one.url);
    mixed.searchParams.set("code_challenge", new URL(two.url).searchParams.get("code_challenge")!);
    await browse(mixed.href);
    await fails(one.finished, "login.failed", "refused: invalid_grant");
    two.cancel();
    await fails(two.finished, "login.failed", "cancelled");
  }),
);

Deno.test(
  "many renewals at once are one at the provider",
  withProvider("claude", async (world) => {
    const first = await loggedIn(world);
    const { store, definitions, state } = world;
    const isStale = (found: { terms: { renewed_at: number } }) =>
      found.terms.renewed_at <= first.terms.renewed_at;
    const others = Array.from(
      { length: 20 },
      () => new Subscriptions(new CredentialStore(store.path), definitions),
    );
    await Promise.all(others.map((each) => each.renew({ login: "claude" }, isStale)));
    assertEquals(state.grants, ["authorization_code", "refresh_token"]);
  }),
);

Deno.test(
  "a renewal for another account, with a used token or of an ended login is refused, and the old tokens stay",
  withProvider("claude", async (world) => {
    const { state, store, logins } = world;
    const key = { login: "claude" };
    await loggedIn(world);
    const before = await secretsOf(store);
    state.token = (fields) => ({ ...fields, account: { uuid: "someone-else" } });
    await fails(logins.renew(key, () => true), "login.over", "another account");
    assertEquals((await secretsOf(store)).sort(), before.sort());
    // Not asked again.
    const asked = state.grants.length;
    await fails(logins.renew(key, () => true), "login.over", "another account");
    assertEquals(state.grants.length, asked);
    state.token = undefined;

    const again = await loggedIn(world);
    const [refresh] = [...(await store.open(store.read().file!, [again.refresh!])).values()];
    await logins.renew(key, () => true);
    state.token = (fields) => ({ ...fields, refresh_token: refresh });
    await fails(logins.renew(key, () => true), "login.over", "used before");
    state.token = undefined;

    // Reuse of a rotated token ends every token of the grant at the provider.
    const third = await loggedIn(world);
    const [old] = [...(await store.open(store.read().file!, [third.refresh!])).values()];
    await logins.renew(key, () => true);
    assertEquals(await renewLogin(world.facts, old), undefined);
    await fails(logins.renew(key, () => true), "login.over", "does not renew");
  }),
);

Deno.test(
  "a failing provider is not asked with every request, and a full disk spends no token",
  withProvider("claude", async (world) => {
    const { state, store, logins } = world;
    const key = { login: "claude" };
    await loggedIn(world);
    const before = await secretsOf(store);
    await Deno.mkdir(`${store.path}.room/in-the-way`, { recursive: true });
    await fails(logins.renew(key, () => true), "login.failed", "no room");
    await Deno.remove(`${store.path}.room`, { recursive: true });
    assertEquals(state.grants, ["authorization_code"]);
    state.token = () => new Response("<html>", { status: 503 });
    await fails(logins.renew(key, () => true), "login.failed", "not OAuth");
    await fails(logins.renew(key, () => true), "login.failed", "not renewed");
    assertEquals(state.grants.length, 2);
    assertEquals((await secretsOf(store)).sort(), before.sort());
  }),
);

Deno.test(
  "a device code: pending and slow_down are waited out, a refusal and a cancel end it",
  async () => {
    // GitHub's shape: errors with status 200, the account on a page of its own, and a
    // token for requests by exchange.
    const answers: Record<string, unknown>[] = [];
    const asked: string[] = [];
    await using provider = await testProvider("copilot", async (request) => {
      const { pathname } = new URL(request.url);
      asked.push(`${pathname} ${request.headers.get("authorization") ?? ""}`.trim());
      if (pathname === "/user") return Response.json({ id: 42, login: "alice" });
      if (pathname === "/copilot_internal/v2/token") {
        const expires_at = Math.floor(Date.now() / 1000) + 1500;
        return Response.json({ token: `tid=${asked.length};exp=${expires_at};sku=free`, expires_at });
      }
      await request.body?.cancel();
      return new Response(null, { status: 404 });
    });
    const { facts, folder, definitions, state } = provider;
    state.device = () =>
      Response.json({
        device_code: "a-device-code",
        user_code: "ABCD-1234",
        verification_uri: "https://github.com/login/device",
        expires_in: 900,
        interval: 1,
      });
    state.answer = () => Response.json(answers.shift() ?? { error: "authorization_pending" });
    const good = { access_token: "ghu_" + "a".repeat(36), token_type: "bearer", scope: "read:user" };
    answers.push({ error: "authorization_pending" }, { error: "slow_down" }, good);
    const waiting = await beginLogin(facts);
    assertEquals([waiting.way, waiting.user_code], ["device", "ABCD-1234"]);
    const tokens = await waiting.finished;
    assertEquals([tokens.account, tokens.facts.user, tokens.refresh], ["42", "alice", good.access_token]);
    const logins = new Subscriptions(new CredentialStore(join(folder, "c/store.json")), definitions);
    await logins.save({ login: "copilot" }, tokens);
    await logins.renew({ login: "copilot" }, () => true);
    assertEquals(asked.filter((line) => line.includes("v2/token")).length, 2);
    assert(asked.every((line) => line.includes(good.access_token)));

    answers.push({ error: "access_denied" });
    await fails((await beginLogin(facts)).finished, "login.failed", "refused: access_denied");
    answers.push({ error: "expired_token" });
    await fails((await beginLogin(facts)).finished, "login.failed", "refused: expired_token");
    const cancelled = await beginLogin(facts);
    cancelled.cancel();
    await fails(cancelled.finished, "login.failed", "cancelled");
    await fails(beginLogin(facts, { way: "browser" }), "login.unsupported", "device codes only");
  },
);

Deno.test(
  "processes of this host renew once together, and one that is killed leaves the login to the others",
  withProvider("claude", async (world) => {
    const { store, state, proxy, caFile } = world;
    const first = await loggedIn(world);
    const renewing = () =>
      limitChild(
        new Deno.Command(Deno.execPath(), {
          args: ["run", "-A", "--quiet", fromRoot("tests/helper/renewing.ts"), store.path, proxy.url, caFile],
          stdout: "piped",
          stderr: "piped",
        }).spawn(),
      );
    const asked = Promise.withResolvers<void>();
    const never = Promise.withResolvers<Response>();
    // The request is held before it reaches the server: it has not rotated anything.
    state.before = (form) => {
      if (form.get("grant_type") !== "refresh_token") return undefined;
      asked.resolve();
      return never.promise;
    };
    const victim = renewing();
    await asked.promise;
    state.before = undefined;
    victim.kill("SIGKILL");
    await victim.output();
    const processes = Array.from({ length: 4 }, renewing);
    for (const each of processes) {
      const { code, stderr } = await each.output();
      assertEquals(code, 0, new TextDecoder().decode(stderr));
    }
    never.resolve(new Response(null, { status: 503 }));
    assertEquals(state.grants, ["authorization_code", "refresh_token", "refresh_token"]);
    const now = world.logins.find({ login: "claude" })!;
    assert(now.terms.renewed_at > first.terms.renewed_at && !now.terms.problem);
  }),
);

/** What the published agents send with a login, and neighbours of those places. */
const AGENTS = {
  codex: {
    provider: "openai",
    file: "/root/.codex/auth.json",
    models: ["chatgpt.com/backend-api/codex/responses", "chatgpt.com/backend-api/wham/accounts/check"],
    refused: [
      "chatgpt.com/backend-api/wham/tasks",
      "chatgpt.com/backend-api/wham/settings/user",
      "chatgpt.com/backend-api/conversations",
      "api.openai.com/v1/responses",
      "auth.openai.com/oauth/revoke",
    ],
    renewal: (facts: OauthFacts, refresh: string) => ({
      type: "application/json",
      body: JSON.stringify({
        client_id: facts.client_id,
        grant_type: "refresh_token",
        refresh_reason: "scheduled",
        refresh_token: refresh,
      }),
    }),
  },
  gemini: {
    provider: "google",
    file: "/root/.gemini/oauth_creds.json",
    models: [
      "cloudcode-pa.googleapis.com/v1internal:streamGenerateContent",
      "oauth2.googleapis.com/tokeninfo",
      "www.googleapis.com/oauth2/v2/userinfo",
    ],
    refused: [
      "oauth2.googleapis.com/revoke",
      "www.googleapis.com/drive/v3/files",
      "generativelanguage.googleapis.com/v1beta/models",
    ],
    renewal: (facts: OauthFacts, refresh: string) => ({
      type: "application/x-www-form-urlencoded",
      body: new URLSearchParams({
        refresh_token: refresh,
        client_id: facts.client_id,
        client_secret: facts.published_secret!,
        grant_type: "refresh_token",
      }).toString(),
    }),
  },
};
for (const [login, { provider, file, models, refused, renewal }] of Object.entries(AGENTS)) {
  Deno.test(
    `the agent of ${login} is logged in with refs: its models get the token, its renewal ends at the host`,
    withProvider(login, async (world) => {
      const { facts, store, logins, state } = world;
      const { access, refresh } = await loggedIn(world);
      const secrets = await secretsOf(store);
      const broker = await CredentialBroker.open({
        ...{ store, logins, providers: [provider], accounts: "stored", vm: "vm-a" },
      });
      const [written] = broker.guestFiles();
      assertEquals(written.path, file);
      assert(written.text.includes(access.ref) && written.text.includes(refresh!.ref));
      assert(!secrets.some((secret) => written.text.includes(secret)));
      assertEquals(broker.guestEnv(), {});

      const ask = (place: string) => {
        const at = place.indexOf("/");
        const [host, path] = [place.slice(0, at), place.slice(at)];
        return broker.inject({ scheme: "https", host, port: 443 }, [
          [":path", path],
          ["authorization", `Bearer ${access.ref}`],
        ]).headers;
      };
      for (const place of models) {
        assertEquals(ask(place).at(-1), ["authorization", `Bearer ${secrets[0]}`], place);
      }
      for (const place of refused) assertThrows(() => ask(place), CredentialDenied, undefined, place);

      const { host, pathname: path } = new URL(facts.token);
      const { type, body } = renewal(facts, refresh!.ref);
      const answer = await broker.attend({
        ...{ scheme: "https", host, port: 443, method: "POST", path },
        headers: [["content-type", type]],
        body: new TextEncoder().encode(body),
      });
      const { access_token, refresh_token } = JSON.parse(new TextDecoder().decode(answer!.body));
      assertEquals([answer!.status, access_token, refresh_token], [200, access.ref, refresh!.ref]);
      assertEquals(state.grants, ["authorization_code"]);
      await broker.close();
    }),
  );
}

Deno.test("each login has the ways of its provider, and another one is refused with the reason", async () => {
  const ways = Object.fromEntries(
    DEFINITIONS.flatMap(({ oauth }) => oauth ? [[oauth.login, waysOf(oauth)]] : []),
  );
  assertEquals(ways, {
    claude: ["browser", "paste"],
    codex: ["browser"],
    gemini: ["browser", "paste"],
    copilot: ["device"],
  });
  for (const { oauth } of DEFINITIONS) {
    for (const way of ["browser", "paste", "device"] as const) {
      if (!oauth || waysOf(oauth).includes(way)) continue;
      const error = await assertRejects(() => beginLogin(oauth, { way }), SbxError);
      assertEquals(error.code, "login.unsupported");
    }
  }
});
