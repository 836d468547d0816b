/** The store's file: modes, seals, damage, several processes (docs/design/contracts/09-credentials.md §9). */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CredentialBroker, CredentialStore, refOf, storePath } from "../../../lib/credential/mod.ts";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";
import type { Parsed } from "../../helper/json.ts";

const SECRET = "sk-ant-api03-" + "Store".repeat(12);
const REF = refOf("anthropic", SECRET);

function folder(run: (path: string) => Promise<void>) {
  return async () => {
    const dir = await Deno.makeTempDir();
    try {
      await run(join(dir, "credentials", "store.json"));
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  };
}

/** A store with one credential. */
async function filled(path: string): Promise<CredentialStore> {
  const store = new CredentialStore(path);
  await store.add([{ provider: "anthropic", secret: SECRET, label: "mine" }]);
  return store;
}

const read = (path: string) => JSON.parse(Deno.readTextFileSync(path));
const write = (path: string, value: unknown) => Deno.writeTextFile(path, JSON.stringify(value));

/** Error code of a broker over this store, which refuses every ref. */
async function errorCodeOf(path: string): Promise<string | undefined> {
  const codes: string[] = [];
  const broker = await CredentialBroker.open({
    store: new CredentialStore(path),
    providers: ["anthropic"],
    onError: ({ code }) => codes.push(code),
  });
  try {
    assertThrows(() =>
      broker.inject({ scheme: "https", host: "api.anthropic.com", port: 443 }, [["x-api-key", REF]])
    );
    assertEquals(broker.broken?.code, codes[0]);
    assertEquals(broker.guestEnv(), {});
    return codes[0];
  } finally {
    await broker.close();
  }
}

Deno.test("the ref of a secret never changes (docs/design/contracts/09-credentials.md §9)", () => {
  assertEquals(
    refOf("anthropic", "sk-ant-test"),
    "credential:blake3:" + "082284ebdb621997bcdb3d08bd477797d013c50a9364231cb501785b0c3ffab8",
  );
});

Deno.test("the path is SBX_CREDENTIAL_STORE_PATH, or in the home", () => {
  assertEquals(storePath({ dir: "/h" }, { get: () => undefined }), "/h/credentials/store.json");
  assertEquals(storePath({ dir: "/h" }, { get: () => "/other.json" }), "/other.json");
});

Deno.test(
  "files are 0600, and hold the secret in no form",
  folder(async (path) => {
    const store = await filled(path);
    for (const file of [path, join(dirname(path), "store.key"), `${path}.lock`]) {
      assertEquals((await Deno.stat(file)).mode! & 0o777, 0o600, file);
      const text = await Deno.readTextFile(file);
      for (const form of [SECRET, btoa(SECRET).slice(4, -4), "StoreStore"]) {
        assert(!text.includes(form), file);
      }
    }
    assertEquals((await Deno.stat(dirname(path))).mode! & 0o777, 0o700);
    assertEquals(store.list().map(({ ref, label, source }) => [ref, label, source]), [[
      REF,
      "mine",
      "added",
    ]]);
    const { file } = new CredentialStore(path).read();
    assertEquals((await new CredentialStore(path).open(file!, file!.entries)).get(REF), SECRET);
  }),
);

Deno.test(
  "a store or key file accessible to others is not used",
  folder(async (path) => {
    const store = await filled(path);
    for (const mode of [0o640, 0o604, 0o666, 0o620]) {
      await Deno.chmod(path, mode);
      assertEquals(assertThrows(() => store.list(), SbxError).code, "credential.store_insecure");
      await assertRejects(() => store.add([{ provider: "openai", secret: "another-secret-1" }]), SbxError);
      assertEquals(await errorCodeOf(path), "credential.store_insecure");
    }
    await Deno.chmod(path, 0o600);
    await Deno.chmod(join(dirname(path), "store.key"), 0o644);
    assertEquals(await errorCodeOf(path), "credential.store_insecure");
  }),
);

const DAMAGES: Record<string, (file: Parsed) => unknown> = {
  "not JSON": () => undefined,
  "null": () => null,
  "another version": (file) => ({ ...file, version: 2 }),
  "no key": ({ version, entries }) => ({ version, entries }),
  "invalid entries": (file) => ({ ...file, entries: [{ ref: "x" }] }),
  "an unknown provider": (file) => ({ ...file, entries: [{ ...file.entries[0], provider: "evil" }] }),
  "a revoked one with a secret": (file) => ({
    ...file,
    entries: [{ ...file.entries[0], revoked_at: "now" }],
  }),
  "a host that was added": (file) => ({
    ...file,
    entries: [{ ...file.entries[0], hosts: ["evil.example"] }],
  }),
  "a decoy made real": (file) => ({ ...file, entries: [{ ...file.entries[0], decoy: true }] }),
  "a seal of another": (file) => ({
    ...file,
    entries: [{ ...file.entries[0], sealed: btoa("x".repeat(90)) }],
  }),
  "a seal that is not base64": (file) => ({ ...file, entries: [{ ...file.entries[0], sealed: "%" }] }),
};

for (const [what, damage] of Object.entries(DAMAGES)) {
  Deno.test(
    `a damaged store is refused: ${what}`,
    folder(async (path) => {
      await filled(path);
      const damaged = damage(read(path));
      await (damaged === undefined ? Deno.writeTextFile(path, "{") : write(path, damaged));
      assertEquals(await errorCodeOf(path), "credential.store_corrupt");
    }),
  );
}

Deno.test(
  "without its key a store is closed, but a credential can still be revoked",
  folder(async (path) => {
    const store = await filled(path);
    const key = join(dirname(path), "store.key");
    await Deno.writeTextFile(key, "0".repeat(64), { mode: 0o600 });
    assertEquals(await errorCodeOf(path), "credential.key_missing");
    await Deno.remove(key);
    assertEquals(await errorCodeOf(path), "credential.key_missing");
    const fresh = new CredentialStore(path);
    const more = { provider: "openai", secret: "another-secret-1" } as const;
    assertEquals((await assertRejects(() => fresh.add([more]), SbxError)).code, "credential.key_missing");
    assertEquals((await fresh.revoke(REF)).sealed, undefined);
    assert(store.list()[0].revoked_at);
  }),
);

Deno.test(
  "an invalid secret is not stored, and no message repeats it",
  folder(async (path) => {
    const store = new CredentialStore(path);
    for (
      const secret of [
        "short",
        "with spaces in it",
        "x".repeat(5000),
        "ünïcödé-secret-1",
        "line\nbreak-secret",
      ]
    ) {
      const error = await assertRejects(() => store.add([{ provider: "openai", secret }]), SbxError);
      assertEquals(error.code, "credential.invalid");
      assert(!error.message.includes(secret));
    }
    const error = await assertRejects(() => store.revoke(REF), SbxError);
    assertEquals(error.code, "credential.not_found");
  }),
);

Deno.test(
  "two processes writing at once lose nothing",
  folder(async (path) => {
    const COUNT = 12;
    const program = `
      const { CredentialStore } = await import(${JSON.stringify(fromRoot("lib/credential/mod.ts"))});
      const store = new CredentialStore(${JSON.stringify(path)});
      await Promise.all(Array.from({ length: ${COUNT} }, (_, i) =>
        store.add([{ provider: "github", secret: "ghp_" + Deno.args[0].repeat(30) + String(i).padStart(6, "0"), vm: Deno.args[0] }])));
    `;
    const script = join(dirname(dirname(path)), "write.ts");
    await Deno.writeTextFile(script, program);
    const args = ["run", "-A", "--no-check", "--quiet", "--config", fromRoot("deno.json"), script];
    const outputs = await Promise.all(
      ["a", "b"].map((name) => runChild(Deno.execPath(), { args: [...args, name] })),
    );
    for (const { success, stderr } of outputs) assert(success, new TextDecoder().decode(stderr));
    const store = new CredentialStore(path);
    assertEquals(store.list().length, 2 * COUNT);
    const { file } = store.read();
    assertEquals((await store.open(file!, file!.entries)).size, 2 * COUNT);
  }),
);

/** Stand-in for secret-tool that stores values in a folder, except while the file `broken` exists. */
const SECRET_TOOL = `#!/bin/sh
verb=$1; shift
for word; do account=$word; done
case $verb in
  store) if [ -e "$KEPT/broken" ]; then cat > /dev/null; else cat > "$KEPT/$account"; fi ;;
  lookup) cat "$KEPT/$account" 2> /dev/null ;;
esac
`;

Deno.test(
  "the key is in a working keyring, and only there",
  folder(async (path) => {
    const dir = dirname(dirname(path));
    const [programs, kept] = [join(dir, "programs"), join(dir, "kept")];
    for (const each of [programs, kept]) await Deno.mkdir(each);
    await Deno.writeTextFile(join(programs, "secret-tool"), SECRET_TOOL, { mode: 0o755 });
    const script = join(dir, "keyring.ts");
    await Deno.writeTextFile(
      script,
      `
      const { CredentialStore } = await import(${JSON.stringify(fromRoot("lib/credential/mod.ts"))});
      const [verb, path] = Deno.args;
      const store = new CredentialStore(path);
      if (verb === "add") await store.add([{ provider: "anthropic", secret: ${JSON.stringify(SECRET)} }]);
      const { file } = store.read();
      console.log([...(await store.open(file, file.entries)).values()].length);
    `,
    );
    const run = async (...args: string[]) => {
      const { success, stderr } = await runChild(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "--quiet", "--config", fromRoot("deno.json"), script, ...args],
        env: {
          PATH: `${programs}:${Deno.env.get("PATH")}`,
          DBUS_SESSION_BUS_ADDRESS: "unix:path=/none",
          KEPT: kept,
        },
      });
      return success ? "" : new TextDecoder().decode(stderr);
    };
    const key = join(dirname(path), "store.key");
    assertEquals(await run("add", path), "");
    assertEquals(read(path).key.in, "keyring");
    await assertRejects(() => Deno.stat(key), Deno.errors.NotFound);
    assertEquals(await run("open", path), "", "a later process finds the key");
    for await (const { name } of Deno.readDir(kept)) await Deno.remove(join(kept, name));
    assertStringIncludes(await run("open", path), "(in the OS keyring) is missing");

    await Deno.writeTextFile(join(kept, "broken"), "");
    const other = join(dir, "other", "store.json");
    assertEquals(await run("add", other), "");
    assertEquals(read(other).key.in, "file", "a keyring that does not return the key is not used");
  }),
);
