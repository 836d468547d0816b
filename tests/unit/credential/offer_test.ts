/**
 * Logins that agents make inside VMs are offered for keeping
 * (docs/design/contracts/09-credentials.md §9, "Subscriptions").
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CredentialBroker, CredentialStore } from "../../../lib/credential/mod.ts";
import { Subscriptions } from "../../../lib/credential/subscription/subscriptions.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { HostLogins } from "../../../lib/service/contract/logins.ts";
import { decode, encode, to } from "../../helper/credential.ts";
import { type GuestLogin, logInGuest } from "../../helper/guest_login.ts";
import { type TestProvider, testProvider } from "../../helper/identity_provider.ts";

interface World extends TestProvider {
  store: CredentialStore;
  logins: Subscriptions;
  open(vm: string, providers?: string[]): Promise<CredentialBroker>;
  /** an agent logs in inside a VM */
  logIn(broker: CredentialBroker, path?: string): Promise<GuestLogin>;
}

const PROVIDER: Record<string, string> = { claude: "anthropic", codex: "openai", gemini: "google" };

function withProvider(login: string, run: (world: World) => Promise<void>) {
  return async () => {
    await using provider = await testProvider(login);
    const store = new CredentialStore(join(provider.folder, "credentials/store.json"));
    const logins = new Subscriptions(store, provider.definitions);
    const brokers: CredentialBroker[] = [];
    const open = async (vm: string, providers = [PROVIDER[login]]) => {
      const broker = await CredentialBroker.open({ store, providers, vm, logins });
      brokers.push(broker);
      return broker;
    };
    const logIn = (broker: CredentialBroker, path?: string) => logInGuest(provider, broker, path);
    try {
      await run(Object.assign(provider, { store, logins, open, logIn }));
    } finally {
      for (const broker of brokers) await broker.close();
    }
  };
}

const secretsOf = async (store: CredentialStore) => {
  const { file } = store.read();
  return await store.open(file!, file!.entries.filter(({ sealed }) => sealed !== undefined));
};

async function fails(run: Promise<unknown>, code: string, text: string): Promise<void> {
  const error = await assertRejects(() => run, SbxError);
  assertEquals(error.code, code, error.message);
  assert(error.message.includes(text), error.message);
}

for (const login of ["claude", "codex", "gemini"]) {
  Deno.test(
    `${login}: a login made in a VM is kept on the host; that VM goes on, and others have it`,
    withProvider(login, async ({ facts, state, store, logins, open, logIn }) => {
      const own = await open("vm-a");
      const { access, refresh, real } = await logIn(own);
      const account = login === "claude" ? "uuid-of-alice" : "alice";
      const [offer, ...others] = logins.offers();
      assertEquals([offer.login, offer.account, offer.vm, offer.ref, others], [
        login,
        account,
        "vm-a",
        refresh,
        [],
      ]);
      assertEquals(logins.list(), []);
      const other = await open("vm-b");
      const at = facts.uses[0].split("/");
      const send = (broker: CredentialBroker, path = `/${at.slice(1).join("/")}`) =>
        broker.inject(to(at[0]), [[":path", path], ["authorization", `Bearer ${access}`]]).headers[1][1];
      assertThrows(() => send(other), CredentialDenied);

      const host = new HostLogins(logins, () => Promise.resolve([{ name: "demo" }]), (vm) => `name of ${vm}`);
      const { offers } = host.list();
      assertEquals(offers.map(({ vm, ref }) => [vm, ref]), [["name of vm-a", refresh]]);
      assert(!JSON.stringify(offers).includes(real.refresh_token as string));
      const kept = await host.keep(login, refresh);
      assertEquals([kept.login!.state, kept.login!.account, kept.login!.ref], ["logged_in", account, access]);
      assertEquals(kept.running, [{ name: "demo" }]);
      assertEquals([logins.offers(), state.grants.at(-1)], [[], "refresh_token"]);

      // The tokens of the VM are renewed ones, which no program of it had.
      const secrets = await secretsOf(store);
      const [token, renewing] = [secrets.get(access), secrets.get(refresh)];
      assert(token !== real.access_token && renewing !== real.refresh_token);
      for (const broker of [own, other]) {
        await broker.refresh();
        assertEquals(send(broker), `Bearer ${token}`);
        // As with every subscription, it makes no keys and ends no login.
        assertThrows(() => send(broker, "/elsewhere"), CredentialDenied);
      }
      const files = other.guestFiles().map(({ text }) => text).join("\n");
      assert(files.includes(access) && files.includes(refresh));
      for (const text of [token, renewing, real.access_token, real.refresh_token]) {
        assert(!files.includes(text as string) && !own.scrub(`is ${text}`).includes(text as string));
      }
      const without = await open("vm-c", ["github"]);
      assertThrows(() => send(without), CredentialDenied);

      // The agent renews its login as before, and the host answers it.
      const count = state.grants.length;
      const { hostname: name, pathname } = new URL(facts.token);
      const form = { grant_type: "refresh_token", refresh_token: refresh, client_id: facts.client_id };
      const answer = await own.attend({
        ...to(name),
        method: "POST",
        path: pathname,
        headers: [["content-type", "application/json"]],
        body: encode(JSON.stringify(form)),
      });
      const given = JSON.parse(decode(answer!.body));
      assertEquals([given.access_token, given.refresh_token, state.grants.length], [access, refresh, count]);
      await logins.renew({ login }, () => true);
      assert((await secretsOf(store)).get(refresh) !== renewing);
      await fails(host.keep(login, refresh), "login.not_found", "no VM has made");
    }),
  );
}

Deno.test(
  "a login is not kept over another one, and only the last of each VM is offered",
  withProvider("claude", async ({ state, store, logins, open, logIn }) => {
    const [a, b] = [await open("vm-a"), await open("vm-b")];
    await logIn(a);
    const second = await logIn(a);
    state.account = "bob";
    const bobs = await logIn(b);
    assertEquals(logins.offers().map(({ vm, account, ref }) => [vm, account, ref]), [
      ["vm-a", "uuid-of-alice", second.refresh],
      ["vm-b", "uuid-of-bob", bobs.refresh],
    ]);
    state.account = "alice";
    await logins.keep(second.refresh);
    state.account = "bob";
    const count = state.grants.length;
    await fails(logins.keep(bobs.refresh), "credential.conflict", "has a login claude without a label");
    assertEquals([state.grants.length, logins.offers().length], [count, 1], "its token is not spent");
    const labelled = await logins.keep(bobs.refresh, "bob");
    assertEquals([labelled.label, labelled.terms.account], ["bob", "uuid-of-bob"]);
    assertEquals(logins.list().length, 2);
    // The terms are under the seal.
    const text = await Deno.readTextFile(store.path);
    await Deno.writeTextFile(store.path, text.replaceAll("uuid-of-bob", "uuid-of-eve"));
    const later = new CredentialStore(store.path);
    await assertRejects(() => secretsOf(later), SbxError, "tampered");
  }),
);

Deno.test(
  "a login that is kept twice at once, under two labels, spends its token once",
  withProvider("claude", async ({ state, store, logins, open, logIn }) => {
    const { refresh } = await logIn(await open("vm-a"));
    const count = state.grants.length;
    const results = await Promise.allSettled(["one", "two"].map((label) => logins.keep(refresh, label)));
    assertEquals(results.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
    const [failed] = results.filter((each) => each.status === "rejected");
    assertEquals(failed.reason.code, "login.not_found");
    assertEquals(state.grants.slice(count), ["refresh_token"]);
    assertEquals([logins.list().length, store.list().length], [1, 2]);
  }),
);

Deno.test(
  "a login whose token the host has already is not kept again, and its token is not spent",
  withProvider("claude", async ({ state, store, logins, open, logIn }) => {
    const { real, refresh, access } = await logIn(await open("vm-a"));
    const [token, renewing] = [real.access_token, real.refresh_token].map(String);
    const tokens = { access: token, refresh: renewing, expires_at: Date.now() + 3_600_000, facts: {} };
    await logins.save({ login: "claude", label: "mine" }, tokens);
    const count = state.grants.length;
    await fails(logins.keep(refresh), "credential.conflict", "another login has");
    assertEquals([state.grants.length, logins.offers().map(({ ref }) => ref)], [count, [refresh]]);
    const secrets = await secretsOf(store);
    assertEquals([secrets.get(access), secrets.get(refresh)], [token, renewing]);
    // The one of the host still renews itself.
    await logins.renew({ login: "claude", label: "mine" }, () => true);
    assertEquals(state.grants.length, count + 1);
  }),
);

Deno.test(
  "a provider that renews a kept login with the token of another one ends it",
  withProvider("claude", async ({ state, logins, open, logIn }) => {
    const first = await logIn(await open("vm-a"));
    await logins.keep(first.refresh);
    const second = await logIn(await open("vm-b"));
    state.token = (answer) => ({ ...answer, refresh_token: first.real.refresh_token });
    await fails(logins.keep(second.refresh, "b"), "login.over", "the refresh token of another login");
    assertEquals(logins.list().length, 1);
  }),
);

Deno.test(
  "keeping a login takes none of another account from its VM, and none that a fork has too",
  withProvider("claude", async ({ state, store, logins, open, logIn }) => {
    const broker = await open("vm-a");
    const shared = await logIn(broker);
    const fork = {
      provider: "anthropic" as const,
      secret: shared.real.refresh_token as string,
      vm: "vm-fork",
    };
    await store.add([fork]);
    const former = await logIn(broker);
    state.account = "bob";
    const bobs = await logIn(broker);
    state.account = "alice";
    const alices = await logIn(broker);
    await logins.keep(alices.refresh);
    const refs = store.list().map(({ ref }) => ref);
    assertEquals([shared, former, bobs].map(({ refresh }) => refs.includes(refresh)), [true, false, true]);
    state.account = "bob";
    const offers = logins.offers().filter(({ account }) => account === "uuid-of-bob");
    assertEquals(offers.map(({ ref }) => ref), [bobs.refresh]);
    assertEquals((await logins.keep(bobs.refresh, "bob")).terms.account, "uuid-of-bob");
  }),
);

Deno.test(
  "a login of another account, one that has ended, and one of another place are not kept",
  withProvider("claude", async ({ state, store, logins, open, logIn }) => {
    const broker = await open("vm-a");
    await logIn(broker, "/other/oauth/token");
    assertEquals(logins.offers(), [], "tokens of another endpoint are no login");
    const { refresh } = await logIn(broker);
    state.token = (answer) => ({ ...answer, account: { uuid: "uuid-of-eve" } });
    await fails(logins.keep(refresh), "login.over", "another account");
    assertEquals(logins.list(), []);
    delete state.token;
    const ended = await logIn(await open("vm-b"));
    state.answer = () => Response.json({ error: "invalid_grant" }, { status: 400 });
    await fails(logins.keep(ended.refresh), "login.over", "does not renew");
    delete state.answer;
    // Only a login that a VM made is an offer; a person's own key and a revoked one are not.
    const [mine] = await store.add([{ provider: "anthropic", secret: "sk-ant-api03-" + "Zq7".repeat(30) }]);
    await fails(logins.keep(mine.ref), "login.not_found", "no VM has made");
    await store.revoke(ended.refresh);
    await fails(logins.keep(ended.refresh), "login.not_found", "no VM has made");
  }),
);
