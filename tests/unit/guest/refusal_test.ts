/** What the guest's kernel says of refused packets, as sbx-net-proxy reads it. */
import { assertEquals } from "@std/assert";
import { packetsOf } from "../../../cmd/guest/net_proxy/nflog.ts";
import { type Packet, readPacket } from "../../../cmd/guest/net_proxy/packet.ts";

/** Datagrams of nfnetlink_log, as the image's kernel (6.1) sent them for what a Python program tried. */
const SAID: Record<string, string> = {
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

const MEANT: Record<string, Packet> = {
  udp: { protocol: 17, destination: "198.51.100.7", ports: { from: 51063, to: 4242 } },
  udp6: { protocol: 17, destination: "2001:db8:0:0:0:0:0:7", ports: { from: 45468, to: 4243 } },
  icmp: { protocol: 1, destination: "198.51.100.8" },
  ospf: { protocol: 89, destination: "198.51.100.10" },
  frame: { protocol: 17, destination: "198.51.100.11", ports: { from: 4096, to: 4243 } },
};

const bytes = (name: string) => Uint8Array.fromHex(SAID[name]);
const read = (datagram: Uint8Array) => [...packetsOf(datagram)].map(readPacket);

for (const name of Object.keys(SAID)) {
  Deno.test(`${name}: where a refused packet was to go`, () =>
    assertEquals(read(bytes(name)), [MEANT[name]]));
}

Deno.test("several packets in one datagram are all read, and other messages between them are passed over", () => {
  const done = new Uint8Array(20);
  done.set([20, 0, 0, 0, 3]);
  const parts = [bytes("udp"), done, bytes("udp6"), bytes("frame")];
  const datagram = new Uint8Array(parts.flatMap((part) => [...part]));
  assertEquals(read(datagram), [MEANT.udp, MEANT.udp6, MEANT.frame]);
});

Deno.test("a datagram that is cut anywhere, or has any length in it, is read to its end", () => {
  for (const name of Object.keys(SAID)) {
    const whole = bytes(name);
    for (let size = 0; size < whole.length; size++) {
      for (const packet of read(whole.subarray(0, size))) {
        if (packet) assertEquals(packet.protocol, MEANT[name].protocol);
      }
    }
    for (let at = 0; at < whole.length; at++) {
      for (const value of [0, 1, 3, 255]) read(whole.with(at, value));
    }
  }
});

/** IPv6 to 2001:db8::7 with these bytes behind its header. */
function v6(next: number, behind: number[]): Packet | undefined {
  const packet = new Uint8Array(40 + behind.length);
  packet.set([0x60, 0, 0, 0, 0, behind.length, next, 64]);
  packet.set([0x20, 1, 0x0d, 0xb8], 24);
  packet[39] = 7;
  packet.set(behind, 40);
  return readPacket({ family: 10, bytes: packet });
}

const PORTS = [0x10, 0, 0x10, 0x92];
const destination = "2001:db8:0:0:0:0:0:7";

Deno.test("ports are behind IPv6's extension headers, and only in a first fragment", () => {
  const ports = { from: 4096, to: 4242 };
  const hopByHop = [60, 0, 0, 0, 0, 0, 0, 0];
  const options = [17, 1, ...Array(14).fill(0)];
  assertEquals(v6(0, [...hopByHop, ...options, ...PORTS]), { protocol: 17, destination, ports });
  assertEquals(v6(44, [17, 0, 0, 1, 0, 0, 0, 9, ...PORTS]), { protocol: 17, destination, ports });
  assertEquals(v6(44, [17, 0, 0, 9, 0, 0, 0, 9, ...PORTS]), { protocol: 17, destination });
});

Deno.test("a later fragment of IPv4 has no ports, and what is no IP says nothing", () => {
  const packet = Uint8Array.fromHex("4500001d000120b940110000c0000202c633640b10001093");
  assertEquals(readPacket({ family: 2, bytes: packet }), { protocol: 17, destination: "198.51.100.11" });
  const arp = Uint8Array.fromHex(
    "ffffffffffffa6c70285282b08060001080006040001a6c70285282bc0000202000000000000c0000203",
  );
  assertEquals(readPacket({ family: 5, bytes: arp }), undefined);
  assertEquals(readPacket({ family: 2, bytes: new Uint8Array() }), undefined);
});
