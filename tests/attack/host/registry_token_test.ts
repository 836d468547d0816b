/**
 * Tokens of a registry, in a VM that uses accounts of the store only: no other account
 * than theirs, or none, gets to it.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { chosenOf, CredentialBroker } from "../../../lib/credential/mod.ts";
import { CredentialDenied, type Destination } from "../../../lib/network/interface/mod.ts";
import type { Header } from "../../../lib/network/mod.ts";
import { added, KEY, to, world } from "../../helper/credential.ts";

const GHCR = to("ghcr.io");
const REALM = "/token";
const CHALLENGE: Header[] = [[
  "www-authenticate",
  'Bearer realm="https://ghcr.io/token",service="ghcr.io",scope="repository:a/b:pull"',
]];
const [GIVEN, STRANGE] = ["djE6YS9iOjE3NjQ0ODk2MDA=", "djE6YXR0YWNrZXIvYjoxNzY0NDg5NjAw"];
const PASSWORD = "password-of-a-registry-01";
const OTHER = "djE6YS9jOjE3NjQ0ODk2MDE=";

function send(broker: CredentialBroker, path: string, headers: Header[] = [], place: Destination = GHCR) {
  const all: Header[] = [[":path", path], ...headers];
  return broker.inject(place, broker.capture(place.host, all).headers).headers.slice(1);
}

/** An answer of a registry, as the guest gets it. */
function answered(broker: CredentialBroker, path: string, body: unknown, place: Destination = GHCR): string {
  const filter = broker.bodies({ ...place, direction: "response", path, status: 200 })!;
  const text = JSON.stringify(body);
  const pieces = [text.slice(0, 7), text.slice(7)].map((piece) =>
    filter.push(new TextEncoder().encode(piece))
  );
  return [...pieces, filter.end()].map((piece) => new TextDecoder().decode(piece)).join("");
}

const bearer = (token: string): Header[] => [["authorization", `Bearer ${token}`]];
const basic = (text: string): Header[] => [["authorization", `Basic ${btoa(text)}`]];

Deno.test(
  "a registry's token goes back to its images, for a stored account and for nobody",
  world(added, async ({ open, refs }) => {
    const broker = await open(undefined, "vm-a", "stored");
    assertThrows(() => send(broker, "/v2/a/b/manifests/v1", bearer(GIVEN)), CredentialDenied);
    broker.answer("ghcr.io", CHALLENGE);
    assertEquals(send(broker, `${REALM}?service=ghcr.io&scope=repository%3Aa%2Fb%3Apull`), []);
    assertEquals(send(broker, `${REALM}?account=me&service=ghcr.io`, basic(`me:${refs.github}`)), [
      ...basic(`me:${KEY.github}`),
    ]);
    const body = { token: GIVEN, expires_in: 300 };
    assertEquals(JSON.parse(answered(broker, REALM, body)), body);
    assertEquals(send(broker, "/v2/a/b/manifests/v1", bearer(GIVEN)), bearer(GIVEN));
    assertThrows(() => send(broker, "/user/packages", bearer(GIVEN)), CredentialDenied);
    assertThrows(() => send(broker, "/v2/x", bearer(GIVEN), to("api.github.com")), CredentialDenied);
    assertThrows(() => send(broker, "/v2/x", bearer(STRANGE)), CredentialDenied);
    // The place is known by the spelling that answers are read at.
    broker.answer("ghcr.io", [["www-authenticate", 'Bearer realm="https://ghcr.io/jwt/"']]);
    assertEquals(send(broker, "/jwt/?service=ghcr.io"), []);
    answered(broker, "/jwt", { access_token: OTHER });
    assertEquals(send(broker, "/v2/x", bearer(OTHER)), bearer(OTHER));
  }),
);

Deno.test(
  "no request for a registry's token names another account, and no other host's answer makes one",
  world(added, async ({ open }) => {
    const broker = await open(undefined, "vm-a", "stored");
    broker.answer("ghcr.io", CHALLENGE);
    const heads: [path: string, headers?: Header[]][] = [
      [REALM, basic(`attacker:${STRANGE}`)],
      [`${REALM}?password=${STRANGE}`],
      [`${REALM}?service=x;refresh_token=${STRANGE}`],
      [`${REALM}?%70assword=${STRANGE}`],
      // Not a secret that was seen before: its ref would be refused for another reason.
      ...[REALM, `${REALM}/`, `/${REALM}`, `${REALM};a=b`, "/%2574oken"].map((path): [string] => [
        `${path}?password=other`,
      ]),
      [REALM, [["content-encoding", "gzip"]]],
    ];
    for (const [path, headers] of heads) {
      assertThrows(() => send(broker, path, headers), CredentialDenied, undefined, path);
    }
    const form = broker.bodies({ ...GHCR, direction: "request", path: REALM })!;
    const text = new TextEncoder().encode(`grant_type=password&username=a&password=${STRANGE}`);
    assertThrows(() => form.push(text), CredentialDenied);
    // A place where others publish.
    const raw = to("raw.githubusercontent.com");
    broker.answer("ghcr.io", [["www-authenticate", `Bearer realm="https://${raw.host}/attacker/token"`]]);
    broker.answer("evil.example", [["www-authenticate", 'Bearer realm="https://ghcr.io/v2/attacker/blob"']]);
    for (const [place, path] of [[raw, "/attacker/token"], [GHCR, "/v2/attacker/blob"]] as const) {
      const filter = broker.bodies({ ...place, direction: "response", path, status: 200 });
      filter?.push(new TextEncoder().encode(JSON.stringify({ token: STRANGE })));
      filter?.end();
      assertThrows(() => send(broker, "/v2/x", bearer(STRANGE), place), CredentialDenied);
    }
  }),
);

Deno.test(
  "a password for one VM gets to its host from there only, is no other VM's key, and ends with its revocation",
  world([], async ({ open, store }) => {
    const place = to("registry.example");
    const credential = { provider: "registry", secret: PASSWORD, hosts: ["registry.example"], only: "vm-a" };
    const [{ ref }] = await store.add([credential]);
    const [{ ref: other }] = await store.add([{ ...credential, only: "vm-b" }]);
    assertEquals(ref === other, false);
    const providers = ["registry"];
    const [broker, strange, host] = await Promise.all([
      open(providers, "vm-a", "stored"),
      open(providers, "vm-c", "stored"),
      CredentialBroker.open({ store, providers }),
    ]);
    try {
      assertEquals(send(broker, "/v2/", basic(`me:${ref}`), place), basic(`me:${PASSWORD}`));
      assertThrows(() => send(broker, "/v2/", basic(`me:${ref}`), to("evil.example")), CredentialDenied);
      for (const each of [strange, host]) {
        assertThrows(() => send(each, "/v2/", basic(`me:${ref}`), place), CredentialDenied);
      }
      assertThrows(() => send(broker, "/v2/", basic(`me:${other}`), place), CredentialDenied);
      // The host of another VM's password stays a host like others.
      assertEquals(send(strange, "/v2/", basic("me:of-its-own"), place), basic("me:of-its-own"));
      assertEquals(chosenOf(store.list(), "registry"), undefined);
      await store.revoke(ref);
      assertThrows(() => send(broker, "/v2/", basic(`me:${ref}`), place), CredentialDenied);
      assertEquals(store.list().map((entry) => entry.ref), [other]);
    } finally {
      await host.close();
    }
  }),
);

Deno.test(
  "a login that a VM was lent gets to its registry, and to no other service of the same provider",
  world([], async ({ open, store }) => {
    const [{ ref }] = await store.add([
      { provider: "github", secret: PASSWORD, hosts: ["ghcr.io"], only: "vm-a" },
    ]);
    const broker = await open(["github"], "vm-a", "stored");
    assertEquals(send(broker, "/token", basic(`me:${ref}`)), basic(`me:${PASSWORD}`));
    for (const host of ["api.github.com", "github.com"]) {
      assertThrows(() => send(broker, "/user", basic(`me:${ref}`), to(host)), CredentialDenied);
      assertThrows(
        () => send(broker, "/user", [["authorization", `token ${ref}`]], to(host)),
        CredentialDenied,
      );
    }
  }),
);

Deno.test(
  "a login that a VM was lent ends with its time, and goes to the one path that it is for",
  world([], async ({ open, store }) => {
    const after = (ms: number) => new Date(Date.now() + ms).toISOString();
    const [day, path] = [86_400_000, "/jwt/auth"];
    const lent = { provider: "gitlab", secret: PASSWORD, hosts: ["gitlab.com"], only: "vm-a" };
    const [{ ref }] = await store.add([{ ...lent, loan: { until: after(day), path } }]);
    const broker = await open(["gitlab"], "vm-a", "stored");
    const place = to("gitlab.com");
    const use = (path: string, headers = basic(`me:${ref}`)) => send(broker, path, headers, place);
    assertEquals(use(`${path}?service=container_registry`), basic(`me:${PASSWORD}`));
    for (
      const other of ["/api/v4/user", "/", `${path}/../../api/v4/user`, `/x${path}`, "/me/code.git/info/refs"]
    ) {
      assertThrows(() => use(other), CredentialDenied, undefined, other);
    }
    assertThrows(() => use(`/api/v4/user?private_token=${ref}`), CredentialDenied);

    // Lent again, under the same ref, and over.
    await store.add([{ ...lent, loan: { until: after(2 * day), path } }]);
    await broker.refresh();
    assertEquals(use(path), basic(`me:${PASSWORD}`));
    const [entry] = store.list();
    await store.put(() => ({
      put: [{ entry: { ...entry, loan: { until: after(-1), path } }, secret: PASSWORD }],
    }));
    assertEquals(store.list(), [], "the write removes it");
    await broker.refresh();
    assertThrows(() => use(path), CredentialDenied);
  }),
);

Deno.test(
  "a loan whose time is over is used by nothing while the store keeps it, and no change of its file renews it",
  world([], async ({ open, store }) => {
    const until = (ms: number) => ({ until: new Date(Date.now() + ms).toISOString() });
    const credential = { provider: "registry", secret: PASSWORD, hosts: ["registry.example"], only: "vm-a" };
    const [{ ref }] = await store.add([{ ...credential, loan: until(86_400_000) }]);
    const text = await Deno.readTextFile(store.path);
    const { loan } = store.list()[0];
    // Another end in the file: the seal is of the first one.
    await Deno.writeTextFile(store.path, text.replace(loan!.until, until(2 * 86_400_000).until));
    const place = to("registry.example");
    const tampered = await open(["registry"], "vm-a", "stored");
    assertThrows(() => send(tampered, "/v2/", basic(`me:${ref}`), place), CredentialDenied);
    await Deno.writeTextFile(store.path, text.replace(loan!.until, until(-1).until));
    const broker = await open(["registry"], "vm-a", "stored");
    assertThrows(() => send(broker, "/v2/", basic(`me:${ref}`), place), CredentialDenied);
    assertEquals([await store.endLoans(), store.list()], [undefined, []]);

    // What the VM has for good is no loan, and is not made one.
    await store.add([credential]);
    const [{ loan: none }] = await store.add([{ ...credential, loan: until(1000) }]);
    assertEquals([none, await store.endLoans(), store.list().length], [undefined, undefined, 1]);
  }),
);
