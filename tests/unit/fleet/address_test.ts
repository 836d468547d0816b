import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseClickHouse } from "../../../lib/fleet/clickhouse/mod.ts";
import { openTarget } from "../../../lib/fleet/machine/mod.ts";
import { NatsTarget } from "../../../lib/fleet/ship/mod.ts";
import { openSource } from "../../../lib/fleet/pull/mod.ts";
import { openNats, parseNats } from "../../../lib/fleet/nats.ts";
import { newKey } from "../../helper/fleet.ts";

const key = await newKey();

Deno.test("addresses of NATS servers", () => {
  assertEquals(parseNats("tls://nats.example.com"), {
    hostname: "nats.example.com",
    port: 4222,
    isTls: true,
    prefix: "sbx.fleet",
    stream: "SBX_FLEET",
    name: "tls://nats.example.com:4222/sbx.fleet",
  });
  assertEquals(parseNats("nats://127.0.0.1:14222/acme.ci").stream, "ACME_CI");
  for (
    const text of [
      "nats://",
      "nats://user:secret@host",
      "nats://host/with space",
      "nats://host/a.>",
      "nats://host/a.*",
      "nats://host?x=1",
      "http://host",
      "tls://192.0.2.1",
      "tls://[2001:db8::1]",
    ]
  ) assertThrows(() => parseNats(text), SbxError, undefined, text);
});

Deno.test("addresses of ClickHouse servers: TLS but on this machine", () => {
  const { url, database, user } = parseClickHouse("clickhouse://hunter@ch.example.com/fleet");
  assertEquals([url.href, database, user], ["https://ch.example.com:8443/", "fleet", "hunter"]);
  assertEquals(parseClickHouse("clickhouse://127.0.0.1").url.href, "http://127.0.0.1:8123/");
  assertEquals(
    parseClickHouse("clickhouse://localhost.example.com:9").url.href,
    "https://localhost.example.com:9/",
  );
  for (const text of ["clickhouse://", "clickhouse://h/a-b", "clickhouse://h?user=x", "clickhouse://h/a.b"]) {
    assertThrows(() => parseClickHouse(text), SbxError, undefined, text);
  }
});

Deno.test("a password in an address is refused, and is in no error", () => {
  for (
    const open of [
      () => parseNats("tls://user:s3cret@host"),
      () => parseClickHouse("clickhouse://user:s3cret@host"),
      () => openTarget("postgres://user:s3cret@host", key),
      () => parseNats("tls://user:pa/s3cret@host"),
      () => parseClickHouse("clickhouse://user:pa#s3cret@host"),
      () => parseClickHouse("clickhouse://host?password=s3cret"),
      () => parseClickHouse("clickhouse://user:a@s3cret@host"),
      () => openTarget("user:s3cret@host", key),
      () => openSource("https://user:s3cret@host"),
      () => openSource("user:s3cret@host"),
      () => openSource("clickhouse://user:s3cret@host"),
      () => openTarget("libsql://user:s3cret@host", key),
    ]
  ) {
    const error = assertThrows(open, SbxError);
    assert(!`${error.message} ${error.hint}`.includes("s3cret"), error.message);
  }
});

Deno.test("a credential goes to NATS by TLS, or to this machine", async () => {
  const authorize = () => Promise.resolve("Bearer s3cret");
  const clear = parseNats("nats://nats.example.com");
  for (
    const open of [
      () => Promise.resolve().then(() => new NatsTarget("nats://nats.example.com", authorize)),
      () => Promise.resolve().then(() => openSource("nats://192.0.2.1", authorize)),
      () => openNats(clear, authorize),
    ]
  ) {
    const { code, hint } = await assertRejects(open, SbxError);
    assertEquals([code, hint?.startsWith("use tls://")], ["fleet.url.invalid", true]);
  }
  for (const url of ["nats://127.0.0.1:1", "nats://localhost", "nats://[::1]", "tls://nats.example.com"]) {
    assert(new NatsTarget(url, authorize).name);
  }
  assert(new NatsTarget("nats://nats.example.com").name);
});
