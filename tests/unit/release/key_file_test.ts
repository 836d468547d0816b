import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  findKeyFiles,
  formatTrust,
  type KeyUse,
  readKeyFile,
  readReleaseKeys,
} from "../../../lib/release/mod.ts";
import { signingKey } from "../../helper/release.ts";

const KEY = `k1:${"0a".repeat(32)}\n`;

async function inFolder(
  run: (dir: string, file: (name: string, mode: number, text?: string) => Promise<string>) => Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir, async (name, mode, text = KEY) => {
      const path = join(dir, name);
      await Deno.writeTextFile(path, text);
      await Deno.chmod(path, mode);
      return path;
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("keys that sign are their owner's alone; nobody else writes any; public ones may be read", () =>
  inFolder(async (_, file) => {
    const isRoot = Deno.uid() === 0;
    const refused: [KeyUse, number, boolean][] = [
      ["sign", 0o600, false],
      ["sign", 0o400, false],
      ["sign", 0o640, true],
      ["sign", 0o604, true],
      ["verify", 0o600, false],
      // Root installs keys that verify for people's own programs.
      ["verify", 0o644, !isRoot],
      ["verify", 0o620, true],
      ["public", 0o644, false],
      ["public", 0o664, true],
      ["public", 0o646, true],
    ];
    for (const [use, mode, isRefused] of refused) {
      const path = await file("keys", mode);
      const read = readKeyFile(path, use).then(() => false, ({ code }) => code === "release.keys.insecure");
      assertEquals(await read, isRefused, `${use} ${mode.toString(8)}`);
    }
  }));

Deno.test("a file of another user, a folder, a huge file and a missing one are refused", () =>
  inFolder(async (dir, file) => {
    await assertRejects(() => readKeyFile(dir, "public"), SbxError);
    await assertRejects(() => readKeyFile(join(dir, "none"), "sign"), SbxError, "are not there");
    await assertRejects(
      async () => await readKeyFile(await file("big", 0o600, "x".repeat(70_000)), "sign"),
      SbxError,
      "is over",
    );
    if (Deno.uid() !== 0) return;
    const path = await file("theirs", 0o600);
    await Deno.chown(path, 65534, 65534);
    await assertRejects(() => readKeyFile(path, "verify"), SbxError, "belongs to another user");
  }));

Deno.test("corp names keys before the installed trust document, and that before the environment", () =>
  inFolder(async (dir, file) => {
    const managed = await file("managed.json", 0o644);
    const env = new Map([["SBX_RELEASE_TRUST_FILE", "/env/trust"], [
      "SBX_RELEASE_HMAC_KEY_FILE",
      "/env/hmac",
    ]]);
    const none = join(dir, "none");
    const corp = {
      release: { hmac_key_file: "hmac.keys", trust_file: "/corp/trust" },
      path: "/etc/sbx/corp.toml",
    };
    assertEquals(await findKeyFiles(corp, env, managed), {
      hmac: "/etc/sbx/hmac.keys",
      trust: "/corp/trust",
    });
    assertEquals(await findKeyFiles({ ...corp, release: {} }, env, none), {
      hmac: "/env/hmac",
      trust: "/env/trust",
    });
    assertEquals(await findKeyFiles(undefined, new Map(), none), {});
    if (Deno.uid() === 0) {
      assertEquals(await findKeyFiles(undefined, env, managed), { hmac: "/env/hmac", trust: managed });
      await Deno.chown(managed, 65534, 65534);
    }
    assertEquals((await findKeyFiles(undefined, env, managed)).trust, "/env/trust", "root does not own it");
  }));

Deno.test("without any key nothing can be verified", () =>
  inFolder(async (_, file) => {
    await assertRejects(() => readReleaseKeys({}), SbxError, "there is no key that could verify a release");
    const { publicKey } = await signingKey();
    const [hmac, trust] = [await file("hmac", 0o600), await file("trust", 0o644, formatTrust([publicKey]))];
    const keys = await readReleaseKeys({ hmac, trust });
    assertEquals([keys.hmac.length, keys.trusted.map(({ id }) => id)], [1, [publicKey.id]]);
  }));
