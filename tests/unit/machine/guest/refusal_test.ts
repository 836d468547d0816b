/** Kernel messages about refused packets, as parsed by sbx-net-proxy. */
import { assertEquals } from "@std/assert";
import { type Packet, parsePacket, parsePackets } from "../../../../cmd/guest/net_proxy/refusals.ts";

/** Datagrams of nfnetlink_log from the image's kernel (6.1), for packets sent by a Python program. */
const DATAGRAMS: Record<string, string> = {
  udp:
    "6000000000040000000000000000000002000002080001000800030005000a0000000000080005000000000208000b00000000000800" +
    "0e0000000000210009004500001ddc984000401171fac0000202c6336407c77710920009ec5778000000",
  udp6:
    "740000000004000000000000000000000a0000020800010086dd030005000a0000000000080005000000000208000b00000000000800" +
    "0e000000000035000900600b059a00091140fd73627800000000000000000000000220010db8000000000000000000000007b19c1093" +
    "00098dc878000000",
  icmp:
    "5c00000000040000000000000000000002000002080001000800030005000a0000000000080005000000000208000b00000000000800" +
    "0e0000000000200009004500001c0791400040014712c0000202c63364080800f7ff00000000",
  ospf:
    "5800000000040000000000000000000002000002080001000800030005000a0000000000080005000000000208000b00000000000800" +
    "0e00000000001900090045000015814940004059cd06c0000202c633640a78000000",
  frame:
    "8000000000040000000000000000000005000002080001000800010005000a0000000000080005000000000208000b00000000000800" +
    "0e000000000012001500000000000000a6c70285282b080000002f000900000000000000a6c70285282b08004500001d000100004011" +
    "0000c0000202c633640b10001093000900007800",
};

const EXPECTED: Record<string, Packet> = {
  udp: { protocol: 17, source: "192.0.2.2", destination: "198.51.100.7", ports: { from: 51063, to: 4242 } },
  udp6: {
    protocol: 17,
    source: "fd73:6278:0:0:0:0:0:2",
    destination: "2001:db8:0:0:0:0:0:7",
    ports: { from: 45468, to: 4243 },
  },
  icmp: { protocol: 1, source: "192.0.2.2", destination: "198.51.100.8" },
  ospf: { protocol: 89, source: "192.0.2.2", destination: "198.51.100.10" },
  frame: { protocol: 17, source: "192.0.2.2", destination: "198.51.100.11", ports: { from: 4096, to: 4243 } },
};

const bytes = (name: string) => Uint8Array.fromHex(DATAGRAMS[name]);
const read = (datagram: Uint8Array) => [...parsePackets(datagram)].map(parsePacket);

for (const name of Object.keys(DATAGRAMS)) {
  Deno.test(`${name}: ends of a refused packet`, () => assertEquals(read(bytes(name)), [EXPECTED[name]]));
}

Deno.test("all packets of one datagram are parsed, and other messages between them are skipped", () => {
  const done = new Uint8Array(20);
  done.set([20, 0, 0, 0, 3]);
  const parts = [bytes("udp"), done, bytes("udp6"), bytes("frame")];
  const datagram = new Uint8Array(parts.flatMap((part) => [...part]));
  assertEquals(read(datagram), [EXPECTED.udp, EXPECTED.udp6, EXPECTED.frame]);
});

Deno.test("a datagram cut anywhere, or with any length field, is parsed to its end", () => {
  for (const name of Object.keys(DATAGRAMS)) {
    const whole = bytes(name);
    for (let size = 0; size < whole.length; size++) {
      for (const packet of read(whole.subarray(0, size))) {
        if (packet) assertEquals(packet.protocol, EXPECTED[name].protocol);
      }
    }
    for (let at = 0; at < whole.length; at++) {
      for (const value of [0, 1, 3, 255]) read(whole.with(at, value));
    }
  }
});

/** Parses an IPv6 packet to 2001:db8::7 with this payload. */
function parseIpv6(next: number, payload: number[]): Packet | undefined {
  const packet = new Uint8Array(40 + payload.length);
  packet.set([0x60, 0, 0, 0, 0, payload.length, next, 64]);
  packet.set([0x20, 1, 0x0d, 0xb8], 24);
  packet[39] = 7;
  packet.set(payload, 40);
  return parsePacket({ family: 10, bytes: packet });
}

const PORTS = [0x10, 0, 0x10, 0x92];
const ends = { source: "0:0:0:0:0:0:0:0", destination: "2001:db8:0:0:0:0:0:7" };

Deno.test("ports are after IPv6's extension headers, and only in a first fragment", () => {
  const ports = { from: 4096, to: 4242 };
  const hopByHop = [60, 0, 0, 0, 0, 0, 0, 0];
  const options = [17, 1, ...Array(14).fill(0)];
  assertEquals(parseIpv6(0, [...hopByHop, ...options, ...PORTS]), { protocol: 17, ...ends, ports });
  assertEquals(parseIpv6(44, [17, 0, 0, 1, 0, 0, 0, 9, ...PORTS]), { protocol: 17, ...ends, ports });
  assertEquals(parseIpv6(44, [17, 0, 0, 9, 0, 0, 0, 9, ...PORTS]), { protocol: 17, ...ends });
});

Deno.test("a later fragment of IPv4 has no ports, and other protocols than IP are ignored", () => {
  const packet = Uint8Array.fromHex("4500001d000120b940110000c0000202c633640b10001093");
  assertEquals(parsePacket({ family: 2, bytes: packet }), {
    protocol: 17,
    source: "192.0.2.2",
    destination: "198.51.100.11",
  });
  const arp = Uint8Array.fromHex(
    "ffffffffffffa6c70285282b08060001080006040001a6c70285282bc0000202000000000000c0000203",
  );
  assertEquals(parsePacket({ family: 5, bytes: arp }), undefined);
  assertEquals(parsePacket({ family: 2, bytes: new Uint8Array() }), undefined);
});
