/**
 * The credentials of a running broker, which follow the store (docs/design/contracts/09-credentials.md §9).
 */
import { assert, assertEquals } from "@std/assert";
import { CredentialStore, refOf } from "../../../lib/credential/mod.ts";
import { CAPTURED_MAX, Vault } from "../../../lib/credential/vault.ts";
import { added, KEY, type World, world } from "../../helper/credential.ts";

const SECRET = "captured-secret-0123456789";
const REF = refOf("mcp", SECRET);

/** Runs a test with a vault over a store, and the codes of its errors. */
const vaulted = (
  credentials: typeof added,
  run: (vault: Vault, world: World, errors: string[]) => Promise<void>,
  vm: string | undefined = "vm-a",
) =>
  world(credentials, async (each) => {
    const errors: string[] = [];
    const vault = new Vault(each.store, vm, ({ code }) => errors.push(code));
    try {
      await vault.refresh();
      await run(vault, each, errors);
    } finally {
      await vault.close();
    }
  });

Deno.test(
  "what a person added is open, and bound to its hosts",
  vaulted(added, (vault, { refs }) => {
    for (const [provider, secret] of Object.entries(KEY)) {
      const ref = refOf(provider, secret);
      assertEquals([vault.get(ref)?.secret, vault.refOfSecret(secret)], [secret, ref]);
      assert(vault.holds(provider as "mcp") && vault.isUnclean(`x ${secret} y`));
    }
    assertEquals(vault.refOfSecret(SECRET), undefined);
    assertEquals(vault.refOf("mcp", SECRET), REF);
    const hosts = [
      "mcp.example.com",
      "MCP.example.com.",
      "other.example.com",
      "example.com",
      "api.github.com",
    ];
    assertEquals(hosts.map((host) => vault.isBound(host)), [true, true, true, false, false]);
    assertEquals([...vault.secrets(new Set([refs.github]))], [[refs.github, KEY.github]]);
    assertEquals([...vault.secrets()].length, added.length);
    return Promise.resolve();
  }),
);

Deno.test(
  "a decoy is open, and no secret that can be sent",
  vaulted([{ provider: "github", secret: KEY.github, decoy: true }], (vault, { refs }) => {
    assertEquals([vault.get(refs.github)?.secret, vault.holds("github")], [KEY.github, false]);
    return Promise.resolve();
  }),
);

Deno.test(
  "a captured secret is stored for its VM, known when it comes again, and usable before it is saved",
  vaulted([], async (vault, { store }) => {
    // Another process writes the store meanwhile.
    await new CredentialStore(store.path).add([{ provider: "github", secret: KEY.github }]);
    assert(!vault.isUnclean(`x ${SECRET} y`));
    assertEquals(vault.learn("mcp", SECRET, { hosts: ["a.test"] }), { ref: REF, outcome: "new" });
    assert(vault.isUnclean(`x ${SECRET} y`), "texts that were clean are searched again");
    assert(vault.isBound("a.test"));
    vault.poll();
    assertEquals(vault.get(REF)?.isRevoked, false);
    assertEquals(vault.learn("mcp", SECRET), { ref: REF, outcome: "known" });
    await vault.flush();
    await vault.refresh();
    assertEquals(store.list().map(({ source, vms, hosts }) => [source, vms, hosts]), [
      ["added", undefined, undefined],
      ["captured", ["vm-a"], ["a.test"]],
    ]);
    assertEquals([vault.get(REF)?.isRevoked, vault.get(REF)?.isUnsaved], [false, false]);
    assertEquals(vault.get(refOf("github", KEY.github))?.secret, KEY.github);
  }),
);

Deno.test(
  "what another VM brought stays closed until this one brings it too",
  vaulted([{ provider: "mcp", secret: SECRET, vm: "vm-b" }], async (vault, { store }) => {
    assertEquals([vault.get(REF)?.secret, vault.get(REF)?.isOwn], [undefined, false]);
    assert(!vault.holds("mcp") && !vault.isUnclean(`x ${SECRET} y`));
    assertEquals(vault.learn("mcp", SECRET), { ref: REF, outcome: "known" });
    assertEquals([vault.get(REF)?.secret, vault.get(REF)?.isOwn], [SECRET, true]);
    await vault.flush();
    assertEquals(store.list()[0].vms, ["vm-b", "vm-a"]);
  }),
);

Deno.test(
  "what this VM brought before is open from the start; without a VM, only what people added is",
  world([{ provider: "mcp", secret: SECRET, vm: "vm-a" }], async ({ store }) => {
    for (const [vm, secret] of [["vm-a", SECRET], ["vm-b", undefined], [undefined, undefined]]) {
      const vault = new Vault(store, vm, () => {});
      await vault.refresh();
      assertEquals([vault.get(REF)?.secret, vault.get(REF)?.isOwn], [secret, vm === "vm-a"]);
      await vault.close();
    }
  }),
);

Deno.test(
  "a VM brings so many secrets and no more; those that are known do not count",
  vaulted(added, async (vault, { refs }) => {
    assertEquals(vault.learn("github", KEY.github), { ref: refs.github, outcome: "known" });
    for (let at = 0; at < CAPTURED_MAX; at++) {
      assertEquals(vault.learn("mcp", `${SECRET}-${at}`).outcome, "new");
    }
    const { ref, outcome } = vault.learn("mcp", SECRET);
    assertEquals([ref, outcome, vault.get(ref)], [REF, "full", undefined]);
    assertEquals(vault.learn("mcp", `${SECRET}-0`).outcome, "known");
    await vault.flush();
  }),
);

Deno.test(
  "a revoked credential is used no more and still recognized, until a person adds it again",
  vaulted(added, async (vault, { store, refs }) => {
    const { signal } = vault.get(refs.mcp)!.controller;
    const other = vault.get(refs.github)!.controller.signal;
    await store.revoke(refs.mcp);
    vault.poll();
    assertEquals([signal.aborted, other.aborted, vault.get(refs.mcp)!.isRevoked], [true, false, true]);
    assertEquals([vault.holds("mcp"), vault.isBound("mcp.example.com")], [false, false]);
    assertEquals([...vault.active()].length, added.length - 1);
    assert(vault.isUnclean(KEY.mcp));
    assertEquals(vault.learn("mcp", KEY.mcp), { ref: refs.mcp, outcome: "known" });
    await vault.refresh();
    assertEquals(vault.get(refs.mcp)!.isRevoked, true, "a guest cannot bring it back");
    await store.add([{ provider: "mcp", secret: KEY.mcp, hosts: ["new.example.com"] }]);
    await vault.refresh();
    assertEquals([vault.get(refs.mcp)!.isRevoked, vault.holds("mcp")], [false, true]);
    assertEquals(vault.get(refs.mcp)!.controller.signal.aborted, false);
    assertEquals([vault.isBound("new.example.com"), vault.isBound("mcp.example.com")], [true, false]);
    // One that has left the store.
    await Deno.writeTextFile(
      store.path,
      JSON.stringify({
        ...store.read().file,
        entries: store.list().filter(({ ref }) => ref !== refs.github),
      }),
    );
    vault.poll();
    assertEquals([other.aborted, vault.holds("github")], [true, false]);
  }),
);

Deno.test(
  "a store that cannot be read is told once, closes everything, and opens again when it is restored",
  vaulted(added, async (vault, { store, refs }, errors) => {
    const good = await Deno.readTextFile(store.path);
    const { signal } = vault.get(refs.github)!.controller;
    assertEquals(vault.isBound("mcp.example.com"), true);
    for (const text of ["{", "{ "]) {
      await Deno.writeTextFile(store.path, text);
      await vault.refresh();
    }
    assertEquals([errors, vault.broken?.code], [["credential.store_corrupt"], "credential.store_corrupt"]);
    assertEquals([signal.aborted, [...vault.active()].length], [true, 0]);
    assertEquals(vault.isBound("mcp.example.com"), false);
    await Deno.writeTextFile(store.path, good);
    await vault.refresh();
    assertEquals([vault.broken, [...vault.active()].length, errors.length], [undefined, added.length, 1]);
    assertEquals(vault.isBound("mcp.example.com"), true);
    // A seal that was changed.
    const file = JSON.parse(good);
    file.entries[0].sealed = file.entries[1].sealed;
    await Deno.writeTextFile(store.path, JSON.stringify(file));
    await vault.refresh();
    assertEquals([vault.broken?.code, errors.length], ["credential.store_corrupt", 2]);
  }),
);
