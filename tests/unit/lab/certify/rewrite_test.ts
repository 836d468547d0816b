/** History that somebody rewrites who may write every file, but has not the key. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { checkSeal, ensureSigningKey, signHead, signSeal } from "../../../../lib/release/signing/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { compareWithHead } from "../../../../lib/lab/certify/mod.ts";
import { readHeads, sealAbandoned, verifyLedger } from "../../../../lib/ledger/read/mod.ts";
import { NO_KEYRING, withCertificate, writeMore } from "../../../helper/certificate.ts";
import { SESSION } from "../../../helper/ledger.ts";

const encode = (text: string) => new TextEncoder().encode(text);

/** Makes the whole record anew, with the same number of rows, and seals it with what `home` has. */
async function forge(home: { dir: string }, path: string): Promise<void> {
  for (const end of ["", ".seal", "-wal", "-shm"]) await Deno.remove(path + end).catch(() => {});
  await writeMore(home, path);
}

Deno.test("a seal is signed, and a record with it is as its machine left it", () =>
  withCertificate(async ({ path, trusted, key }) => {
    const check = (seal: string) => checkSeal(seal, trusted, true);
    assertEquals(await verifyLedger(path, undefined, check), {
      ok: true,
      events: 6,
      sealed: true,
      signed_by: { id: key.publicKey.id, trusted: true },
    });
  }));

Deno.test("a rewritten record is found out by its seal, by a head and by a certificate", () =>
  withCertificate(async ({ home, path, trusted, bytes }) => {
    const seal = await Deno.readTextFile(`${path}.seal`);
    const head = (await signHead(home, SESSION, await readHeads(path)))!;
    await writeMore(home, path);
    for (const kept of [seal, head]) {
      assertEquals((await compareWithHead(path, encode(kept), trusted, "h")).events, 6);
    }
    assertEquals((await compareWithHead(path, bytes, trusted, "c")).events, 6);

    const stranger = { dir: await Deno.makeTempDir() };
    await ensureSigningKey(stranger, NO_KEYRING);
    await forge(stranger, path);
    const check = (required: boolean) =>
      verifyLedger(path, undefined, (text) => checkSeal(text, trusted, required));
    const lax = await check(false);
    // By itself the new record is whole: only its signature is another one.
    assertEquals([lax.ok, lax.signed_by?.trusted], [true, false]);
    assertStringIncludes((await check(true)).first_bad!.reason, "which is not given");
    for (const kept of [encode(seal), encode(head), bytes]) {
      const error = await assertRejects(() => compareWithHead(path, kept, trusted, "h"), SbxError);
      assertEquals(error.code, "certify.mismatch");
    }
    // With the signature of before over another text.
    const forged = JSON.parse(await Deno.readTextFile(`${path}.seal`));
    await Deno.writeTextFile(
      `${path}.seal`,
      JSON.stringify({ ...forged, signatures: JSON.parse(seal).signatures }) + "\n",
    );
    assertStringIncludes((await check(false)).first_bad!.reason, "proves nothing");
    // The old seal, which is signed well.
    await Deno.writeTextFile(`${path}.seal`, seal);
    assertStringIncludes((await check(false)).first_bad!.reason, "was sealed with");
    // No signature at all.
    await Deno.remove(`${path}.seal`);
    await sealAbandoned(path, SESSION);
    assertEquals((await check(false)).signed_by, undefined);
    assertStringIncludes((await check(true)).first_bad!.reason, "is not signed");
    await Deno.remove(stranger.dir, { recursive: true });
  }));

Deno.test("events cut off the end are missed by a head that was taken before", () =>
  withCertificate(async ({ home, path, trusted }) => {
    await writeMore(home, path);
    const head = (await signHead(home, SESSION, await readHeads(path)))!;
    await forge(home, path);
    const error = await assertRejects(() => compareWithHead(path, encode(head), trusted, "h"), SbxError);
    assertStringIncludes(error.message, "has fewer events than the 12");
  }));

Deno.test("the seal of a process that died is signed with the key of its home", () =>
  withCertificate(async ({ home, path, trusted }) => {
    await Deno.remove(`${path}.seal`);
    await sealAbandoned(path, SESSION, (text) => signSeal(home, text));
    const { signed_by } = await verifyLedger(path, undefined, (text) => checkSeal(text, trusted, true));
    assertEquals(signed_by?.trusted, true);
  }));
