/** What a store keeps of credentials that are added again, and what it drops over its limit. */
import { assertEquals, assertRejects } from "@std/assert";
import { dirname } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CredentialStore, refOf } from "../../../lib/credential/mod.ts";
import { ENTRIES_MAX } from "../../../lib/credential/entry.ts";
import { world } from "../../helper/credential.ts";

const SECRET = "some-secret-0123456789";
const REF = refOf("mcp", SECRET);
const numbered = (count: number, name: string) =>
  Array.from(
    { length: count },
    (_, at) => ({ provider: "mcp" as const, secret: `${name}-secret-0123456789-${at}` }),
  );

Deno.test(
  "a secret that comes again is merged into its credential",
  world([], async ({ store }) => {
    const add = async (more: object) => {
      const [entry] = await store.add([{ provider: "mcp", secret: SECRET, ...more }]);
      const { sealed: _, ref: __, provider: ___, created_at: ____, ...rest } = store.list()[0];
      assertEquals(entry?.ref ?? REF, REF);
      return rest;
    };
    assertEquals(await add({ vm: "a", hosts: ["h1"] }), { source: "captured", hosts: ["h1"], vms: ["a"] });
    const [{ created_at }] = store.list();
    assertEquals(await add({ vm: "b", hosts: ["h2", "h1"] }), {
      source: "captured",
      hosts: ["h1", "h2"],
      vms: ["a", "b"],
    });
    assertEquals(await add({ label: "mine" }), { source: "added", hosts: ["h1", "h2"], label: "mine" });
    assertEquals(await add({ vm: "c" }), { source: "added", hosts: ["h1", "h2"], label: "mine" });
    assertEquals(await add({ label: "other", decoy: true }), {
      source: "added",
      hosts: ["h1", "h2"],
      label: "other",
      decoy: true,
    });
    assertEquals((await add({ vm: "c" })).decoy, true);
    assertEquals((await add({})).decoy, undefined);
    assertEquals(store.list()[0].created_at, created_at);
    // The latest hosts stay.
    const hosts = Array.from({ length: 40 }, (_, at) => `n${at}`);
    assertEquals((await add({ hosts })).hosts, hosts.slice(-32));
  }),
);

Deno.test(
  "a revoked credential comes back as a new one, when a person adds it",
  world([{ provider: "mcp", secret: SECRET, label: "mine", hosts: ["h"] }], async ({ store }) => {
    const revoked = await store.revoke(REF);
    assertEquals([revoked.ref, revoked.sealed, typeof revoked.revoked_at], [REF, undefined, "string"]);
    assertEquals(store.list(), [revoked]);
    assertEquals((await store.revoke(REF)).revoked_at, revoked.revoked_at);
    assertEquals(await store.add([{ provider: "mcp", secret: SECRET, vm: "a" }]), []);
    assertEquals(store.list(), [revoked]);
    const [entry] = await store.add([{ provider: "mcp", secret: SECRET }]);
    assertEquals([entry.label, entry.hosts, entry.revoked_at, entry.source], [
      undefined,
      undefined,
      undefined,
      "added",
    ]);
    const error = await assertRejects(() => store.revoke(refOf("mcp", "x")), SbxError);
    assertEquals(error.code, "credential.not_found");
  }),
);

Deno.test(
  "over its limit a store drops revoked credentials, then captured ones, the oldest first, and never what people added",
  world([], async ({ store }) => {
    const refsOf = (some: { secret: string }[]) => some.map(({ secret }) => refOf("mcp", secret));
    const [revoked, captured, own] = [
      numbered(2, "revoked"),
      numbered(3, "captured"),
      numbered(ENTRIES_MAX, "own"),
    ];
    await store.add(revoked.slice(0, 1));
    await store.add(captured.map((each) => ({ ...each, vm: "a" })));
    await store.add(revoked.slice(1));
    for (const ref of refsOf(revoked)) await store.revoke(ref);
    await store.add(own.slice(0, ENTRIES_MAX - 5));
    assertEquals(store.list().length, ENTRIES_MAX);
    await store.add(own.slice(ENTRIES_MAX - 5, ENTRIES_MAX - 4));
    const kept = (some: { secret: string }[]) => {
      const stored = new Set(store.list().map(({ ref }) => ref));
      return refsOf(some).map((ref) => stored.has(ref));
    };
    assertEquals([kept(revoked), kept(captured)], [[false, true], [true, true, true]]);
    await store.add(own.slice(ENTRIES_MAX - 4, ENTRIES_MAX - 2));
    assertEquals([kept(revoked), kept(captured)], [[false, false], [false, true, true]]);
    await store.add(own.slice(ENTRIES_MAX - 2));
    assertEquals([kept(captured), store.list().length], [[false, false, false], ENTRIES_MAX]);
    const error = await assertRejects(() => store.add(revoked), SbxError);
    assertEquals([error.code, error.message], [
      "credential.limit",
      `the store is at its limit of ${ENTRIES_MAX} credentials`,
    ]);
    assertEquals(kept(own).every((isKept) => isKept), true);
    // A guest's secret is dropped at once.
    await store.add([{ ...captured[0], vm: "a" }]);
    assertEquals(kept(captured), [false, false, false]);
  }),
);

Deno.test(
  "the key is in the keyring if that returns it, and in a file otherwise",
  world([], async ({ store }) => {
    const values = new Map<string, string>();
    const working = {
      get: (account: string) => Promise.resolve(values.get(account)),
      set: (account: string, value: string) => Promise.resolve(void values.set(account, value)),
    };
    const forgetful = { ...working, get: () => Promise.resolve(undefined) };
    for (const [keyring, place] of [[working, "keyring"], [forgetful, "file"]] as const) {
      const path = `${dirname(store.path)}-${place}/store.json`;
      const other = new CredentialStore(path, keyring);
      assertEquals([other.read(), other.list(), other.stamp()], [{ file: undefined, stamp: "" }, [], ""]);
      await other.add([{ provider: "mcp", secret: SECRET }]);
      const { file, stamp } = other.read();
      const { entries } = file!;
      assertEquals([file!.key.in, stamp], [place, other.stamp()]);
      const again = new CredentialStore(path, keyring);
      assertEquals(await again.open(file!, entries), new Map([[REF, SECRET]]));
      const files = await Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name);
      assertEquals(files.includes("store.key"), place === "file");
      if (place === "file") continue;
      values.clear();
      const missing = await assertRejects(
        () => new CredentialStore(path, keyring).open(file!, entries),
        SbxError,
      );
      assertEquals(missing.code, "credential.key_missing");
    }
  }),
);
