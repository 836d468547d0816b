import { assert, assertEquals } from "@std/assert";
import {
  canonicalHost,
  formatAddress,
  isAddress,
  isPrivateHost,
  OwnAddresses,
  parseAddress,
} from "../../../lib/base/address/mod.ts";
import { Random } from "../../helper/random.ts";

Deno.test("a host has one canonical spelling", () => {
  const cases: [text: string, host: string | undefined][] = [
    ["example.com", "example.com"],
    ["EXAMPLE.Com.", "example.com"],
    ["_acme-challenge.example.com", "_acme-challenge.example.com"],
    ["localhost", "localhost"],
    ["203.0.113.9", "203.0.113.9"],
    ["203.0.113.9.", "203.0.113.9"],
    ["0xcb007109", "203.0.113.9"],
    ["0XCB.0.0x71.9", "203.0.113.9"],
    ["0313.0.0161.011", "203.0.113.9"],
    ["3405803785", "203.0.113.9"],
    ["203.0.28937", "203.0.113.9"],
    ["127.1", "127.0.0.1"],
    ["[::ffff:203.0.113.9]", "203.0.113.9"],
    ["::ffff:cb00:7109", "203.0.113.9"],
    ["[2001:DB8:0:0:0:0:0:1]", "2001:db8::1"],
    ["2001:db8::0:1", "2001:db8::1"],
    ["::", "::"],
    ["1::", "1::"],
    ["::1", "::1"],
    ["1:0:0:2:0:0:0:3", "1:0:0:2::3"],
    ["1:0:2:0:3:0:4:0", "1:0:2:0:3:0:4:0"],
    ["10:0:0:1::", "10:0:0:1::"],
    ["foo.123", undefined],
    ["1.2.3.4.5", undefined],
    ["256.1.1.1", undefined],
    ["foo.0x1", undefined],
    ["1e100.net", "1e100.net"],
    ["foo.1e100", "foo.1e100"],
    ["a..b", undefined],
    ["a b", undefined],
    ["", undefined],
    ["face.cc", "face.cc"],
  ];
  for (const [text, host] of cases) {
    assertEquals(canonicalHost(text), host, text);
    if (host !== undefined) assertEquals(canonicalHost(host), host, `again: ${text}`);
  }
});

Deno.test("a name of labels whose last begins with no digit is its own canonical spelling, in lower case", () => {
  const random = new Random(5);
  const alphabet = [..."aaabz019__--....A:"];
  const label = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
  let names = 0;
  for (let run = 0; run < 20_000; run++) {
    const text = random.below(50)
      ? Array.from({ length: random.below(12) }, () => random.pick(alphabet)).join("")
      : Array.from({ length: 1 + random.below(5) }, () => "a".repeat(random.below(66))).join(".");
    const labels = text.split(".");
    if (text.length > 253 || !labels.every((text) => label.test(text)) || /^\d/.test(labels.at(-1)!)) {
      continue;
    }
    names++;
    assertEquals(canonicalHost(text), text);
    assertEquals(canonicalHost(`${text.toUpperCase()}.`), text);
  }
  assert(names > 1000, `${names}`);
  for (
    const text of ["a..b", ".a", "-a.b", "a-.b", "a.b-", "a.".repeat(127) + "a", "a".repeat(64), "a b", "a.é"]
  ) {
    assertEquals(canonicalHost(text), undefined, text);
  }
});

Deno.test("every IPv6 address is formatted as URL parsers do", () => {
  let state = 1;
  const next = () => state = (state * 1103515245 + 12345) & 0x7fffffff;
  for (let run = 0; run < 5000; run++) {
    const bytes = new Uint8Array(16);
    for (let at = 0; at < 16; at += 2) {
      const kind = (next() >> 8) % 3;
      if (kind > 0) bytes[at + 1] = next() >> 8;
      if (kind > 1) bytes[at] = next() >> 8;
    }
    const text = formatAddress(bytes);
    assertEquals(`[${text}]`, new URL(`http://[${text}]`).hostname);
    assertEquals(parseAddress(text), bytes, text);
  }
});

Deno.test("only addresses in a plain spelling are addresses to the wire", () => {
  for (const text of ["203.0.113.7", "0.0.0.0", "::1", "2001:db8::7", "::ffff:203.0.113.7", "fe80::1"]) {
    assert(isAddress(text), text);
  }
  const names = [
    "face.cc",
    "dead.beef",
    "cafe",
    "1.2.3",
    "0x7f.0.0.1",
    "010.0.0.1",
    "256.0.0.1",
    "1.2.3.4.",
    "",
  ];
  for (const text of [...names, ":", ":::", "1:2", "fe80::1%eth0", "[::1]", "1.2.3.4:80", "::1.2.3"]) {
    assert(!isAddress(text), text);
  }
});

Deno.test("private addresses are private in every spelling and every tunnel", () => {
  const hidden = [
    "0x7f000001",
    "0177.1",
    "127.1",
    "%31%32%37.0.0.1",
    "loc%61lhost",
    "%6cocalhost.",
    "localhost.localdomain",
    "ip6-localhost",
    "[::ffff:10.0.0.1]",
    "::10.0.0.1",
    "::ffff:0:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1:abcd::1",
    "64:ff9b:1:abc:7f:0:100:0",
    "2002:7f00:1::",
    "2002:a00:1::5",
    "100::",
    "100::ffff",
    "2001:0:cb00:7109:0:0:f5ff:fffe",
    "2001:0:a00:1::1",
    "2001:db8::5efe:10.0.0.1",
    "2001:db8::200:5efe:a9fe:a9fe",
    "fe80::1%25eth0",
    "１２７.0.0.1",
    "127。0。0。1",
  ];
  for (const host of hidden) assert(isPrivateHost(host), host);
  const open = ["203.0.113.9", "2001:db8::1", "2002:cb00:7109::1", "64:ff9b::203.0.113.9", "100:0:0:1::1"];
  for (
    const host of [...open, "2001:db8::5efe:203.0.113.9", "2001:4860:4860::8888", "notlocalhost", "a%zz"]
  ) {
    assert(!isPrivateHost(host), host);
  }
});

Deno.test("this machine's own addresses are private, in every spelling, also those that it gets and loses later", () => {
  for (const { address } of Deno.networkInterfaces()) assert(isPrivateHost(address), address);
  let now = 0;
  let addresses = ["203.0.113.7", "2001:db8:5::7"];
  const own = new OwnAddresses(() => addresses.map((address) => ({ address })), () => now);
  for (
    const host of ["203.0.113.7", "0xcb007107", "::ffff:203.0.113.7", "64:ff9b::cb00:7107", "2001:DB8:5:0::7"]
  ) {
    assert(own.has(host), host);
  }
  for (const host of ["203.0.113.8", "2001:db8:5::8", "example.com", ""]) assert(!own.has(host), host);
  addresses = ["198.51.100.9"];
  now += 1000;
  assertEquals(["203.0.113.7", "198.51.100.9"].map((host) => own.has(host)), [false, true]);
});

Deno.test("neighbours of this machine are private where IPv6 gives them global addresses", () => {
  const own = new OwnAddresses(() => [
    { address: "2001:db8:5::7", cidr: "2001:db8:5::7/64" },
    { address: "2001:db8:6::7", cidr: "2001:db8:6::7/32" },
    { address: "203.0.113.7", cidr: "203.0.113.7/24" },
  ], () => 0);
  for (const host of ["2001:db8:5::7", "2001:db8:5::9", "2001:DB8:5:0:1::", "2001:db8:6::7", "203.0.113.7"]) {
    assert(own.has(host), host);
  }
  for (const host of ["2001:db8:5:1::9", "2001:db8:6::9", "203.0.113.8"]) assert(!own.has(host), host);
});

Deno.test("services of clouds at addresses that look public are private", () => {
  for (const host of ["168.63.129.16", "0xa83f8110", "::ffff:168.63.129.16", "161.26.0.10", "166.9.250.1"]) {
    assert(isPrivateHost(host), host);
  }
  for (const host of ["168.63.129.17", "161.27.0.1", "166.12.0.1"]) assert(!isPrivateHost(host), host);
});
