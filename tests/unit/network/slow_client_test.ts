/**
 * Clients that are slow with their TLS handshake and their first request: one
 * thread in many handshakes at once.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { closeQuietly } from "../../../lib/base/wire/mod.ts";
import { type Ca, openCa } from "../../../lib/network/ca/mod.ts";
import { copy, Terminator } from "../../../lib/network/guest/terminator.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream, RawClient } from "../../helper/net_client.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET = `GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`;

/** A TLS client of the guest to which nothing comes until `held` settles. */
async function slowClient(net: TestNet, port: number, held: Promise<void>): Promise<Deno.TlsConn> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const [near, far, guest] = await Promise.all([
    Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }),
    listener.accept(),
    net.connect(port),
  ]);
  listener.close();
  copy(far, guest).catch(() => {});
  held.then(() => copy(guest, far)).catch(() => {}).finally(() => [far, guest].forEach(closeQuietly));
  return await Deno.startTls(near, { hostname: HOST, caCerts: [net.caCert], alpnProtocols: ["http/1.1"] });
}

/** Waits until the time for a head is over, by one that stays incomplete. */
async function headTimeOver(net: TestNet): Promise<RawClient> {
  const client = await net.client();
  await client.send("GET / HT");
  assertEquals((await client.answer()).status, 408);
  return client;
}

Deno.test("a handshake, and then a head, that take longer than a head may", async (t) => {
  for (const port of [443, 8443]) {
    await t.step(`port ${port}`, async () => {
      let target = { hostname: "", port: 0 };
      const timeouts = { head: 100, silence: 100 };
      await using net = await TestNet.open({ target: () => target, timeouts });
      const upstream = fixedUpstream(OK, await net.leaf(HOST));
      target = upstream.target;
      const held = Promise.withResolvers<void>();
      const slow = await slowClient(net, port, held.promise);
      const shaking = slow.handshake();
      const first = await headTimeOver(net);
      held.resolve();
      await shaking;
      const second = await headTimeOver(net);
      const client = new RawClient(slow);
      assertEquals(
        (await client.ask(GET.replace(HOST, port === 443 ? HOST : `${HOST}:${port}`))).status,
        200,
      );
      for (const each of [client, first, second]) each.close();
      upstream.close();
    });
  }
});

Deno.test("a handshake that is never completed is on record as that", async () => {
  await using net = await TestNet.open({ timeouts: { handshake: 100 } });
  const held = Promise.withResolvers<void>();
  const slow = await slowClient(net, 443, held.promise);
  const shaking = slow.handshake().catch(() => {});
  await net.idle();
  held.resolve();
  await shaking;
  closeQuietly(slow);
  const [{ outcome }] = net.gate.entries;
  assertStringIncludes(outcome!.error!, "did not complete the TLS handshake within 0.1 s");
  assert(!outcome!.error!.includes("pins"));
});

Deno.test("no handshake fails of many that come while the certificate of their name is made", async () => {
  const dir = await Deno.makeTempDir();
  const ca = await openCa({ dir });
  const slow = {
    leaf: (name: string) => new Promise((done) => setTimeout(() => done(ca.leaf(name)), 5)),
  } as Ca;
  const terminator = new Terminator(slow);
  for (let round = 0; round < 10; round++) {
    const name = `new-${round}.example.com`;
    await Promise.all(Array.from({ length: 200 }, async (_, place) => {
      // Some come before the first asks for the certificate, some after.
      await new Promise((resolve) => setTimeout(resolve, place / 4));
      const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const [near, far] = await Promise.all([
        Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }),
        listener.accept(),
      ]);
      listener.close();
      const guest = await Deno.startTls(near, { hostname: name, caCerts: [ca.certificate] });
      const { inside, drained, close } = await terminator.accept(far, new Uint8Array(), name, ADDRESS);
      await Promise.all([guest.handshake(), inside.handshake()]);
      guest.close();
      close();
      await drained;
    }));
  }
  terminator.close();
  await Deno.remove(dir, { recursive: true });
});
