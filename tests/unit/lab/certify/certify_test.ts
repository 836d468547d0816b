/** Certificates: what they say, and that no byte of them can change. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  CERTIFICATE_TYPE,
  ensureSigningKey,
  SEAL_TYPE,
  signText,
} from "../../../../lib/release/signing/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { compareWithLedger, verifyCertificate } from "../../../../lib/lab/certify/mod.ts";
import { NO_KEYRING, withCertificate, writeMore } from "../../../helper/certificate.ts";
import { runSql, SESSION } from "../../../helper/ledger.ts";

Deno.test("a certificate says what the record says", () =>
  withCertificate(async ({ bytes, trusted, key, path }) => {
    const verified = await verifyCertificate(bytes, trusted, "c");
    assertEquals(verified.key, key.publicKey.id);
    const { subject, predicate: { session_id, ledger, facts } } = verified.certificate;
    assertEquals([session_id, ledger.events, ledger.outcomes, ledger.journal], [SESSION, 6, 1, 3]);
    assertEquals(subject[0].digest.blake3, ledger.head_hash);
    assertEquals(facts.boots.rows.map(({ accelerator, started }) => [accelerator, started]), [[
      "tcg",
      "cold",
    ]]);
    assertEquals(facts.contracts.rows.map(({ profile_id }) => profile_id), ["code"]);
    const { evidence } = facts;
    assertEquals(evidence.decisions.rows.map((row) => Object.values(row)), [
      ["credential", "observed", 1],
      ["dns", "allow", 1],
      ["http", "allow", 1],
      ["http", "block", 1],
      ["process", "allow", 1],
      ["process", "observed", 1],
    ]);
    assertEquals(evidence.hosts.rows, [{
      scheme: "https",
      host: "api.example.com",
      port: 443,
      requests: 2,
      answered: 1,
      blocked: 1,
    }]);
    assertEquals(evidence.names.rows, [{ name: "example.com", queries: 1, blocked: 0 }]);
    assertEquals(evidence.credentials.rows[0].host, "api.openai.com");
    assertEquals(evidence.findings.rows, [{ pack_id: "p", rule_id: "r", severity: "high", findings: 1 }]);
    assertEquals(evidence.gaps.rows.map(({ why }) => why), ["sbx-activity has ended"]);
    await compareWithLedger(verified.certificate, path, trusted);
  }));

Deno.test("a certificate with any one byte changed is refused", () =>
  withCertificate(async ({ bytes, trusted }) => {
    // Each bit of the first and last bytes and of every seventh one, and another bit of the rest.
    for (let at = 0; at < bytes.length; at++) {
      const isThorough = at < 200 || at > bytes.length - 400 || at % 7 === 0;
      for (const bit of isThorough ? [0, 1, 2, 3, 4, 5, 6, 7] : [at % 8]) {
        const changed = bytes.slice();
        changed[at] ^= 1 << bit;
        await assertRejects(
          () => verifyCertificate(changed, trusted, "c"),
          SbxError,
          undefined,
          `${at}.${bit}`,
        );
      }
    }
  }));

Deno.test("a certificate with bytes added or cut off is refused", () =>
  withCertificate(async ({ text, trusted }) => {
    const { signatures, ...rest } = JSON.parse(text);
    const changes = [
      text.slice(0, -1),
      text + "\n",
      " " + text,
      "\ufeff" + text,
      text.replace("{", '{"payload":"",'),
      JSON.stringify({ signatures, ...rest }) + "\n",
      JSON.stringify({ ...rest, signatures: [...signatures, ...signatures] }) + "\n",
      JSON.stringify({ ...rest, signatures: [...signatures, { ...signatures[0], keyid: "other" }] }) + "\n",
      JSON.stringify({ ...rest, signatures: [] }) + "\n",
      "",
    ];
    for (const changed of changes) {
      await assertRejects(() => verifyCertificate(new TextEncoder().encode(changed), trusted, "c"), SbxError);
    }
  }));

Deno.test("a certificate of another key, or of another type, is refused", () =>
  withCertificate(async ({ bytes, text, key, trusted }) => {
    const dir = await Deno.makeTempDir();
    const other = await ensureSigningKey({ dir }, NO_KEYRING);
    await Deno.remove(dir, { recursive: true });
    const codeOf = async (changed: string | Uint8Array, keys = trusted) => {
      const given = typeof changed === "string" ? new TextEncoder().encode(changed) : changed;
      return (await assertRejects(() => verifyCertificate(given, keys, "c"), SbxError)).code;
    };
    assertEquals(await codeOf(bytes, [other.publicKey]), "attest.untrusted");
    assertEquals(await codeOf(bytes, []), "attest.untrusted");
    const payload = new TextDecoder().decode(Uint8Array.fromBase64(JSON.parse(text).payload));
    // Signed by the other key in the name of the trusted one.
    const forged = JSON.parse(await signText(other, CERTIFICATE_TYPE, payload));
    forged.signatures[0].keyid = key.publicKey.id;
    assertEquals(await codeOf(JSON.stringify(forged) + "\n"), "attest.invalid");
    assertEquals(await codeOf(await signText(key, SEAL_TYPE, payload)), "certify.invalid");
    assertEquals(await codeOf(await signText(key, CERTIFICATE_TYPE, "{}")), "certify.invalid");
    assertEquals(await codeOf(await signText(key, "text/plain", payload)), "attest.invalid");
    const moved = payload.replace(`sbx-session/${SESSION}`, "sbx-session/other");
    assert(moved !== payload);
    assertEquals(await codeOf(await signText(key, CERTIFICATE_TYPE, moved)), "certify.invalid");
  }));

Deno.test("a certificate holds for a record that has become longer, and for no changed one", () =>
  withCertificate(async ({ home, bytes, trusted, path, key }) => {
    const { certificate } = await verifyCertificate(bytes, trusted, "c");
    await writeMore(home, path);
    await compareWithLedger(certificate, path, trusted);
    const codeOf = async (work: () => Promise<unknown>) => (await assertRejects(work, SbxError)).code;
    // The signer itself says something else than its record.
    const lie = structuredClone(certificate);
    lie.predicate.facts.evidence.hosts.rows[0].blocked = 2;
    assertEquals(await codeOf(() => compareWithLedger(lie, path, [key.publicKey])), "certify.mismatch");
    const longer = structuredClone(certificate);
    longer.predicate.ledger.events = 99;
    assertEquals(await codeOf(() => compareWithLedger(longer, path, trusted)), "certify.mismatch");
    await runSql(path, "UPDATE entries SET event = replace(event, 'ls -l', 'ls -a') WHERE sequence = 4");
    assertEquals(await codeOf(() => compareWithLedger(certificate, path, trusted)), "certify.mismatch");
  }));
