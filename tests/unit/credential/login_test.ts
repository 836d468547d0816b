/** Logins at MCP servers, as the store keeps them. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Logins, REASON, refOf } from "../../../lib/credential/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { KEY, world } from "../../helper/credential.ts";

const PLACE = { profile: "p", server: "s", url: "https://mcp.example.com/x" };
const OTHERS = [{ profile: "q" }, { server: "t" }, { url: "https://mcp.example.com/y" }].map((other) => ({
  ...PLACE,
  ...other,
}));
const TERMS = {
  issuer: "https://login.example.com",
  token_endpoint: "https://login.example.com/token",
  auth_methods: [],
  client_id: "c",
};
const [ACCESS, REFRESH, CLIENT] = ["access", "refresh", "client"].map((name) => `${name}-token-0123456789`);

Deno.test(
  "a login is found at its own place, and each of its secrets is opened",
  world([], async ({ store }) => {
    const logins = new Logins(store);
    const all = [PLACE, ...OTHERS];
    for (const place of all) {
      assertEquals([logins.find(place), await logins.open(place)], [undefined, undefined]);
    }
    await logins.save(PLACE, { terms: TERMS, access: ACCESS, refresh: REFRESH, client: CLIENT });
    assertEquals(logins.find(PLACE), { ref: refOf("mcp", ACCESS), terms: TERMS, isRenewable: true });
    assertEquals(await logins.open(PLACE), {
      terms: TERMS,
      access: ACCESS,
      refresh: REFRESH,
      client: CLIENT,
    });
    for (const place of OTHERS) {
      assertEquals([logins.find(place), await logins.open(place)], [undefined, undefined]);
      assertEquals(await logins.remove(place), false);
    }
    assertEquals(
      store.list().map(({ label, hosts, source, login }) => [label, hosts, source, login?.part]),
      [
        ["access token of s in p", ["mcp.example.com:443"], "added", "access"],
        ["refresh token of s in p", [], "added", "refresh"],
        ["client secret of s in p", [], "added", "client"],
      ],
    );
  }),
);

Deno.test(
  "a login that is saved again leaves nothing of the one before, and one that is removed nothing at all",
  world([], async ({ store }) => {
    const logins = new Logins(store);
    await logins.save(PLACE, { terms: TERMS, access: ACCESS, refresh: REFRESH });
    await logins.save(OTHERS[0], { terms: TERMS, access: CLIENT });
    await logins.save(PLACE, { terms: { ...TERMS, client_id: "d" }, access: `${ACCESS}-2` });
    assertEquals(logins.find(PLACE), {
      ref: refOf("mcp", `${ACCESS}-2`),
      terms: { ...TERMS, client_id: "d" },
      isRenewable: false,
    });
    assertEquals((await logins.open(PLACE))!.refresh, undefined);
    assertEquals(store.list().length, 2);
    assertEquals([await logins.remove(PLACE), await logins.remove(PLACE)], [true, false]);
    assertEquals([logins.find(PLACE), await logins.open(PLACE)], [undefined, undefined]);
    assert(logins.find(OTHERS[0]));
    // A server that gives a token which is stored already, for another place.
    const error = await assertRejects(() => logins.save(PLACE, { terms: TERMS, access: CLIENT }), SbxError);
    assertEquals(error.code, "credential.conflict");
    // A token that a person revoked may come again.
    await store.revoke(refOf("mcp", CLIENT));
    assertEquals([logins.find(OTHERS[0]), await logins.open(OTHERS[0])], [undefined, undefined]);
    await logins.save(PLACE, { terms: TERMS, access: CLIENT });
    assertEquals((await logins.open(PLACE))!.access, CLIENT);
  }),
);

Deno.test(
  "the port of a login's server follows from its URL",
  world([], async ({ store }) => {
    const logins = new Logins(store);
    for (const [url, host] of [["http://a.test/", "a.test:80"], ["https://a.test:8443/", "a.test:8443"]]) {
      await logins.save({ ...PLACE, url }, { terms: TERMS, access: `${ACCESS}${host}` });
      assertEquals(store.list().at(-1)!.hosts, [host]);
    }
  }),
);

Deno.test(
  "a client's secret is opened for the host that a person added it for, and nothing else is",
  world([
    { provider: "mcp", secret: KEY.mcp, hosts: ["login.example.com", "other.example.com:8443"] },
    { provider: "mcp", secret: "decoy-secret-0123456789", hosts: ["login.example.com"], decoy: true },
    { provider: "mcp", secret: "captured-secret-0123456789", hosts: ["login.example.com"], vm: "vm-a" },
    { provider: "mcp", secret: "revoked-secret-0123456789", hosts: ["login.example.com"] },
    { provider: "mcp", secret: "unbound-secret-0123456789" },
    { provider: "github", secret: KEY.github, hosts: ["login.example.com"] },
  ], async ({ store }) => {
    const logins = new Logins(store);
    await store.revoke(refOf("mcp", "revoked-secret-0123456789"));
    await logins.save({ ...PLACE, url: "https://login.example.com/" }, { terms: TERMS, access: ACCESS });
    const secret = (ref: string, url = "https://login.example.com/token") =>
      logins.clientSecret(ref, new URL(url));
    const ref = refOf("mcp", KEY.mcp);
    assertEquals(await secret(ref), KEY.mcp);
    assertEquals(await secret(ref, "https://login.example.com:8443/"), KEY.mcp);
    assertEquals(await secret(ref, "https://other.example.com:8443/"), KEY.mcp);
    for (const url of ["https://other.example.com/", "https://x.test/"]) {
      assertEquals(await secret(ref, url), undefined, url);
    }
    for (const { ref: other } of store.list()) {
      if (other !== ref) assertEquals(await secret(other), undefined);
    }
    assertEquals(await secret(refOf("mcp", "nobody")), undefined);
  }),
);

Deno.test(
  "the access token of a login is used for its own login and server only",
  world([], async ({ store, open }) => {
    await new Logins(store).save(PLACE, { terms: TERMS, access: ACCESS, refresh: REFRESH });
    const broker = await open([]);
    const url = new URL(PLACE.url);
    const use = async (secret: string, ...to: [URL, typeof PLACE?]) => {
      const used = await broker.use(refOf("mcp", secret), ...to).catch((error) => error);
      return used instanceof CredentialDenied ? used.substitutions[0].reason : used.secret;
    };
    assertEquals(await use(ACCESS, url, PLACE), ACCESS);
    for (const other of [undefined, ...OTHERS]) {
      assertEquals(await use(ACCESS, url, other), REASON.notGranted);
    }
    assertEquals(await use(ACCESS, new URL("https://other.example.com/"), PLACE), REASON.wrongHost);
    assertEquals(await use(REFRESH, url, PLACE), REASON.wrongHost);
  }),
);

Deno.test(
  "one change of a login at a time, each with its result or error",
  world([], async ({ store }) => {
    const logins = new Logins(store);
    const order: string[] = [];
    const begun = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    const first = logins.exclusively(PLACE, async () => {
      begun.resolve();
      await end.promise;
      order.push("first");
      return 1;
    });
    await begun.promise;
    const second = new Logins(store).exclusively(PLACE, () => Promise.resolve(order.push("second")));
    // Other places wait for nothing.
    assertEquals(await logins.exclusively(OTHERS[0], () => Promise.resolve("other")), "other");
    end.resolve();
    assertEquals([await first, await second, order], [1, 2, ["first", "second"]]);
    await assertRejects(() => logins.exclusively(PLACE, () => Promise.reject(new Error("x"))), Error, "x");
    for await (const { name } of Deno.readDir(dirname(store.path))) {
      const { mode } = await Deno.stat(`${dirname(store.path)}/${name}`);
      assertEquals([name.endsWith(".lock"), mode! & 0o777], [true, 0o600]);
    }
  }),
);
