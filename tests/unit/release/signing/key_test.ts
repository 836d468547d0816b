/** The key of a machine: made once, kept in the keyring or a private file, never replaced silently. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  ensureSigningKey,
  findSigningKey,
  formatPublicKey,
  keyPaths,
  parsePublicKeys,
  readMachineKey,
} from "../../../../lib/release/signing/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";

async function withHome(run: (home: { dir: string }) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await run({ dir });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** @param works false: it takes values and does not return them */
function keyringOf(works = true) {
  const values = new Map<string, string>();
  return {
    values,
    get: (account: string) => Promise.resolve(works ? values.get(account) : undefined),
    set: (account: string, value: string) => Promise.resolve(void values.set(account, value)),
  };
}

/** `undefined` as an argument would be the default. */
const NO_KEYRING = keyringOf(false);

Deno.test("without a keyring the key is in a private file, and found again", () =>
  withHome(async (home) => {
    assertEquals(await findSigningKey(home, NO_KEYRING), undefined);
    assertEquals(await readMachineKey(home), undefined);
    const { publicKey } = await ensureSigningKey(home, NO_KEYRING);
    assertEquals((await Deno.stat(keyPaths(home).secret)).mode! & 0o777, 0o600);
    assertEquals((await ensureSigningKey(home, NO_KEYRING)).publicKey, publicKey);
    assertEquals(await readMachineKey(home), publicKey);
  }));

Deno.test("with a keyring no file has the private key", () =>
  withHome(async (home) => {
    const keyring = keyringOf();
    const { publicKey } = await ensureSigningKey(home, keyring);
    assertEquals((await findSigningKey(home, keyring))?.publicKey, publicKey);
    assertEquals(keyring.values.size, 1);
    await assertRejects(() => Deno.stat(keyPaths(home).secret), Deno.errors.NotFound);
    const error = await assertRejects(() => findSigningKey(home, NO_KEYRING), SbxError, "is missing");
    assertEquals(error.code, "attest.key.missing");
  }));

Deno.test("a key that moves to another place while it is read is found there", () =>
  withHome(async (home) => {
    const { record } = keyPaths(home);
    const { publicKey } = await ensureSigningKey(home, NO_KEYRING);
    const moved = await Deno.readTextFile(record);
    await Deno.writeTextFile(record, moved.replace('"in": "file"', '"in": "keyring"'));
    const keyring = { ...NO_KEYRING, get: () => Deno.writeTextFile(record, moved).then(() => undefined) };
    assertEquals((await findSigningKey(home, keyring))?.publicKey, publicKey);
  }));

Deno.test("processes that need a key at once get the same one", () =>
  withHome(async (home) => {
    const keys = await Promise.all(Array.from({ length: 5 }, () => ensureSigningKey(home, NO_KEYRING)));
    assertEquals(new Set(keys.map(({ publicKey }) => publicKey.id)).size, 1);
  }));

Deno.test("a key that is lost, replaced, readable by others or damaged is refused, and stays as it is", () =>
  withHome(async (home) => {
    await ensureSigningKey(home, NO_KEYRING);
    const { secret, record } = keyPaths(home);
    const [own, public_] = [await Deno.readTextFile(secret), await Deno.readTextFile(record)];
    const refused = async (code: string) => {
      assertEquals((await assertRejects(() => ensureSigningKey(home, NO_KEYRING), SbxError)).code, code);
    };
    await Deno.remove(secret);
    await refused("attest.key.missing");
    await withHome(async (other) => {
      await ensureSigningKey(other, NO_KEYRING);
      await Deno.copyFile(keyPaths(other).secret, secret);
    });
    await refused("attest.key.missing");
    await Deno.writeTextFile(secret, own);
    await Deno.chmod(secret, 0o644);
    await refused("release.keys.insecure");
    await Deno.chmod(secret, 0o600);
    await Deno.writeTextFile(record, public_.replace(/"id": "./, '"id": "x'));
    await refused("attest.key.invalid");
    await Deno.writeTextFile(record, public_);
    assert(await ensureSigningKey(home, NO_KEYRING));
  }));

Deno.test("public keys are SubjectPublicKeyInfo in PEM; anything else is refused", () =>
  withHome(async (home) => {
    const { publicKey } = await ensureSigningKey(home, NO_KEYRING);
    const pem = formatPublicKey(publicKey);
    assertEquals(parsePublicKeys(pem + pem, "k"), [publicKey, publicKey]);
    const imported = await crypto.subtle.importKey(
      "spki",
      Uint8Array.fromBase64(pem.split("\n")[1]),
      "Ed25519",
      true,
      ["verify"],
    );
    assertEquals(new Uint8Array(await crypto.subtle.exportKey("raw", imported)), publicKey.raw);
    const short = pem.replace(/\n(.{20})/, "\n");
    for (const bad of ["", "x", short, pem.replaceAll("PUBLIC", "PRIVATE"), pem + short]) {
      assertEquals(assertThrows(() => parsePublicKeys(bad, "k"), SbxError).code, "attest.key.invalid");
    }
  }));
