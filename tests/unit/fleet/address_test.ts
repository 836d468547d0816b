import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseNats } from "../../../lib/fleet/nats/mod.ts";

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
