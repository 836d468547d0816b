import { assertEquals } from "@std/assert";
import { listFindings } from "../../../lib/service/findings.ts";
import { http, withGate } from "../../helper/session_gate.ts";

const LOUD = `[profiles.rules.loud]
action = "allow"
match = 'http.request.method == "PUT"'
detection_level = "high"
`;

Deno.test("findings: each with when its event was and what it is about, in their order, as many as are asked for", () =>
  withGate(LOUD, async ({ gate, ledger, path }) => {
    const hosts = Array.from({ length: 120 }, (_, at) => `h${at}.example.com`);
    for (const host of hosts) await gate.decide(http(host, "PUT"));
    await ledger.flush();
    const listed = await listFindings(path);
    assertEquals(listed.map(({ subject }) => subject), hosts.map((host) => `PUT https://${host}/`));
    const [{ timestamp_unix_ms, event_type, severity, rule_id }] = listed;
    assertEquals([event_type, severity, rule_id], ["http.request", "high", "loud"]);
    assertEquals(Math.abs(Date.now() - timestamp_unix_ms!) < 60_000, true);
    assertEquals((await listFindings(path, 2)).map(({ subject }) => subject), [
      "PUT https://h0.example.com/",
      "PUT https://h1.example.com/",
    ]);
  }));
