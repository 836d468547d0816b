/** Words for failures of upstreams. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { DeadlineWatch } from "../../../lib/network/connection.ts";
import { ConnectionLost, MessageFault } from "../../../lib/network/fault.ts";
import { connect, upstreamError } from "../../../lib/network/upstream/connect.ts";
import type { PinnedDestination } from "../../../lib/network/upstream/upstream.ts";

const to = (host: string, hostname: string): PinnedDestination => ({
  scheme: "http",
  host,
  port: 80,
  dial: { hostname, port: 8080 },
});
const PLACES: [destination: PinnedDestination, name: string][] = [
  [to("a.example", "8.8.8.8"), "a.example:80 (at 8.8.8.8:8080)"],
  [to("8.8.8.8", "8.8.8.8"), "8.8.8.8:80"],
  [to("2001:db8::1", "2001:db8::1"), "[2001:db8::1]:80"],
];

Deno.test("errors of exchanges name the upstream, and its address where that is another", () => {
  const lost = (timedOut: boolean) => new ConnectionLost("was idle for too long", timedOut);
  for (const [destination, name] of PLACES) {
    const cases: [cause: Error, code: string, message: string, hint: boolean][] = [
      [lost(true), "upstream.timeout", `${name} was idle for too long`, true],
      [lost(false), "upstream.failed", `${name} was idle for too long`, true],
      [
        new MessageFault("two lengths"),
        "upstream.failed",
        `the response of ${name} cannot be read safely: two lengths`,
        false,
      ],
    ];
    for (const [cause, code, message, hint] of cases) {
      const error = upstreamError(cause, destination) as SbxError;
      assertEquals([error.code, error.message, !!error.hint, error.cause], [code, message, hint, cause]);
    }
    const other = new SbxError("credential.denied", "no");
    assertEquals(upstreamError(other, destination), other);
  }
});

const dialing = async (scheme: "http" | "https", port: number, timeoutMs: number) => {
  const dial = { hostname: "127.0.0.1", port };
  const options = { watch: new DeadlineWatch(5), timeoutMs, caCerts: [], alpn: [] };
  const error = await assertRejects(
    () => connect({ scheme, host: "a.example", port: 80, dial }, options),
    SbxError,
  );
  return [error.code, error.message.replace(`${port}`, "PORT")];
};

Deno.test("an upstream that refuses a connection, or takes none in time, is named", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const name = "a.example:80 (at 127.0.0.1:PORT)";
  // It takes the connection, and says nothing in the TLS handshake.
  const accepting = listener.accept();
  assertEquals(await dialing("https", port, 50), [
    "upstream.timeout",
    `${name} did not accept the connection in time`,
  ]);
  (await accepting).close();
  listener.close();
  assertEquals(await dialing("http", port, 60_000), ["upstream.failed", `${name} refused the connection`]);
});
