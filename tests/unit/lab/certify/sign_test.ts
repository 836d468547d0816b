import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { certifySession, verifyCertificate } from "../../../../lib/lab/certify/mod.ts";
import { withCertificate } from "../../../helper/certificate.ts";
import { SESSION } from "../../../helper/ledger.ts";

Deno.test("a record is certified by the key of its machine, and one of another session is not", () =>
  withCertificate(async ({ home, path, trusted }) => {
    const { text, certificate } = await certifySession(home, path, SESSION);
    const bytes = new TextEncoder().encode(text);
    assertEquals((await verifyCertificate(bytes, trusted, "c")).certificate, certificate);
    assertEquals(Object.keys(JSON.parse(text)).sort(), ["payload", "payloadType", "signatures"]);
    const other = await assertRejects(() => certifySession(home, path, crypto.randomUUID()), SbxError);
    assertEquals(other.code, "certify.invalid");
  }));
