import { assertEquals } from "@std/assert";
import { CERTIFICATE_TYPE, ensureSigningKey, signText } from "../../../../lib/release/signing/mod.ts";
import { makeCertificate, verifyCertificate } from "../../../../lib/lab/certify/mod.ts";
import { Ledger } from "../../../../lib/ledger/mod.ts";
import { NO_KEYRING } from "../../../helper/certificate.ts";
import { eventCommon } from "../../../helper/event.ts";
import { execEvent, requestEvent, SESSION, withLedgerPath } from "../../../helper/ledger.ts";

Deno.test("a guest that fills every list makes no certificate that is too large to verify", () =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 0; at < 1100; at++) {
        const host = `${String(at).padStart(5, "0")}.${"x".repeat(246)}`;
        ledger.append({ event: requestEvent("http.request", { host }) });
        ledger.append({ event: requestEvent("dns.query", { qname: host }) });
        ledger.append({ event: requestEvent("mcp.tool_call", { server_name: host }) });
        const gap = execEvent();
        gap.common = {
          ...eventCommon("process.exit"),
          labels: { activity: "gap", why: "\x01".repeat(1000) },
        };
        ledger.append({ event: gap });
      }
    }
    const dir = await Deno.makeTempDir();
    const key = await ensureSigningKey({ dir }, NO_KEYRING);
    await Deno.remove(dir, { recursive: true });
    const made = await makeCertificate(path, {
      session_id: SESSION,
      seal: "unsigned",
      user: "u",
      device: "d",
    });
    const bytes = new TextEncoder().encode(await signText(key, CERTIFICATE_TYPE, JSON.stringify(made)));
    const { certificate } = await verifyCertificate(bytes, [key.publicKey], "c");
    const { hosts, gaps } = certificate.predicate.facts.evidence;
    assertEquals([hosts.rows.length, hosts.omitted, gaps.omitted], [1000, 100, 100]);
  }));
