/** Rows of `sbx net`. */
import { assertEquals } from "@std/assert";
import { row } from "../../../cmd/sbx/record/net.ts";

Deno.test("sbx net shows names that led to no address with the answer", () => {
  const dns = (response: object | undefined, outcome: object) =>
    row({
      common: { timestamp_unix_ms: 0, process: { executable: "curl" } },
      dns: { request: { qname: "nothere.example", qtype: "A" }, response },
      decision: "allow",
      outcome,
    }).filter(Boolean).slice(1);
  assertEquals(dns({ rcode: "NXDOMAIN", answers: [] }, { duration_ms: 3 }), [
    "allow",
    "NXDOMAIN",
    "3",
    "curl",
    "DNS A nothere.example",
  ]);
  assertEquals(dns({ rcode: "NOERROR", answers: [] }, {}).at(-1), "DNS A nothere.example (no address)");
  assertEquals(dns(undefined, { error: "the resolver answered REFUSED" }).slice(1), [
    "failed",
    "curl",
    "DNS A nothere.example (the resolver answered REFUSED)",
  ]);
});

Deno.test("sbx net names the container of a program", () => {
  const container = { id: "0123456789abcdef".repeat(4), name: "web" };
  const shown = (container: object) =>
    row({
      common: { timestamp_unix_ms: 0, process: { executable: "curl", container } },
      http: { request: { method: "GET", url: "http://a.example/" } },
      decision: "allow",
      outcome: {},
    })[5];
  assertEquals([shown(container), shown({ id: container.id })], ["curl in web", "curl in 0123456789ab"]);
});
