/** TLS termination by itself: its listeners, their limits, and names that no ClientHello had. */
import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Ca, openCa } from "../../../lib/network/ca/mod.ts";
import { Terminator } from "../../../lib/network/guest/terminator.ts";
import { LISTENER_NAMES_MAX } from "../../../lib/network/limit.ts";
import { noDelayOf } from "../../helper/no_delay.ts";

const ADDRESS = "203.0.113.7";
/** Addresses whose listeners stay open. */
const ADDRESSES = 16;

/** A terminator whose CA signs one certificate, and notes the names that it was asked for. */
async function withTerminator(
  run: (terminator: Terminator, signed: string[], certificate: string) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const ca = await openCa({ dir });
  const leaf = await ca.leaf("a.example");
  const signed: string[] = [];
  const terminator = new Terminator({
    leaf: (name: string) => {
      signed.push(name);
      return Promise.resolve(leaf);
    },
  } as unknown as Ca);
  try {
    await run(terminator, signed, ca.certificate);
  } finally {
    terminator.close();
    await Deno.remove(dir, { recursive: true });
  }
}

/** Both ends of a guest's connection. */
async function pair(): Promise<[guest: Deno.TcpConn, host: Deno.TcpConn]> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return await Promise.all([
    Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }),
    listener.accept(),
  ]);
}

/** Terminates a connection and closes it. @returns port of its listener */
async function portOf(terminator: Terminator, name: string | undefined, address = ADDRESS): Promise<number> {
  const [guest, host] = await pair();
  const { inside, drained, close } = await terminator.accept(host, new Uint8Array(), name, address);
  const { port } = inside.localAddr as Deno.NetAddr;
  close();
  guest.close();
  await drained;
  return port;
}

Deno.test("names share a listener up to a limit, and the next name opens another", () =>
  withTerminator(async (terminator, signed) => {
    const port = await portOf(terminator, "0.example");
    for (let at = 1; at < LISTENER_NAMES_MAX; at++) {
      assertEquals(await portOf(terminator, `${at}.example`), port);
    }
    assertEquals(await portOf(terminator, "0.example"), port);
    const next = await portOf(terminator, "next.example");
    assertNotEquals(next, port);
    assertEquals(await portOf(terminator, "0.example"), next);
    assertEquals([signed[0], signed.length], ["0.example", LISTENER_NAMES_MAX + 3]);
  }));

Deno.test("each address without a name has a listener of its own, and the oldest makes room", () =>
  withTerminator(async (terminator, signed) => {
    const addresses = Array.from({ length: ADDRESSES }, (_, at) => `203.0.113.${at}`);
    const ports: number[] = [];
    for (const address of addresses) ports.push(await portOf(terminator, undefined, address));
    assertEquals(new Set(ports).size, ADDRESSES);
    for (const [at, address] of addresses.entries()) {
      assertEquals(await portOf(terminator, undefined, address), ports[at]);
    }
    assertEquals(signed, addresses);
    await portOf(terminator, undefined, "203.0.113.99");
    assertEquals(await portOf(terminator, undefined, addresses[1]), ports[1]);
    await assertRejects(() => Deno.connect({ hostname: "127.0.0.1", port: ports[0] }));
    await portOf(terminator, undefined, addresses[0]);
    assertEquals(signed.slice(ADDRESSES), ["203.0.113.99", addresses[0]]);
  }));

Deno.test("a name that is not the one of the ClientHello gets no certificate", () =>
  withTerminator(async (terminator, signed, certificate) => {
    for (const [sent, works] of [["a.example", true], ["b.example", false]] as const) {
      const [guest, host] = await pair();
      const { inside, drained, close } = await terminator.accept(
        host,
        new Uint8Array(),
        "a.example",
        ADDRESS,
      );
      const outside = await Deno.startTls(guest, { hostname: sent, caCerts: [certificate] });
      const both = await Promise.allSettled([outside.handshake(), inside.handshake()]);
      assertEquals(both.map(({ status }) => status === "fulfilled"), [works, works]);
      outside.close();
      close();
      await drained;
    }
    assertEquals(signed.includes("b.example"), false);
  }));

Deno.test("bytes that were read already come first, and those written inside are drained", () =>
  withTerminator(async (terminator, _, certificate) => {
    const [guest, host] = await pair();
    const [relay, proxied] = await pair();
    // Reads the beginning of the ClientHello before the terminator does.
    const outside = await Deno.startTls(relay, { hostname: "a.example", caCerts: [certificate] });
    const handshake = outside.handshake();
    const first = new Uint8Array(20);
    const count = (await proxied.read(first))!;
    proxied.readable.pipeTo(guest.writable).catch(() => {});
    guest.readable.pipeTo(proxied.writable).catch(() => {});
    const { inside, drained, close } = await terminator.accept(
      host,
      first.subarray(0, count),
      "a.example",
      ADDRESS,
    );
    await inside.handshake();
    await handshake;
    await inside.write(new TextEncoder().encode("hello"));
    inside.close();
    const read = new Uint8Array(10);
    assertEquals(await outside.read(read), 5);
    await drained;
    outside.close();
    close();
  }));

Deno.test("a closed terminator accepts nothing", () =>
  withTerminator(async (terminator) => {
    const port = await portOf(terminator, "a.example");
    const other = await portOf(terminator, undefined);
    terminator.close();
    const [guest, host] = await pair();
    const error = await assertRejects(
      () => terminator.accept(host, new Uint8Array(), "a.example", ADDRESS),
      SbxError,
    );
    assertEquals(error.code, "net.closed");
    for (const closed of [port, other]) {
      await assertRejects(() => Deno.connect({ hostname: "127.0.0.1", port: closed }));
    }
    guest.close();
    host.close();
  }));

Deno.test("small pieces of an answer do not wait for each other's acknowledgement", () =>
  withTerminator(async (terminator) => {
    for (const name of ["a.example", undefined]) {
      const [guest, host] = await pair();
      const { inside, drained, close } = await terminator.accept(host, new Uint8Array(), name, ADDRESS);
      const ends = [inside.localAddr, inside.remoteAddr] as const;
      assertEquals([noDelayOf(...ends), noDelayOf(ends[1], ends[0])], [true, true]);
      close();
      guest.close();
      await drained;
    }
  }));
