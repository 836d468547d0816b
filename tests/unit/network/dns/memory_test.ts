/** State of a guest's DNS, all of it bounded: cached answers, resolved addresses, overridden names. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { isPrivateHost } from "../../../../lib/base/address/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { DnsCache, ResolvedAddresses } from "../../../../lib/network/dns/cache.ts";
import { Overrides } from "../../../../lib/network/dns/mod.ts";

const question = (name: string, type = "A") => ({ name, type });
const record = (name: string, ttl: number) => ({ name, type: "A", ttl, data: "8.8.4.4" });

Deno.test("an answer is cached for its TTL, within the limits, and shows its remaining TTL", () => {
  let seconds = 1000;
  const cache = new DnsCache({ minTtl: 5, maxTtl: 100, negativeTtl: 20 }, () => seconds * 1000);
  const cases: [number | undefined, number][] = [[0, 5], [30, 30], [5000, 100], [undefined, 20]];
  for (const [ttl, lifetime] of cases) {
    const records = ttl === undefined ? [] : [record("a.test", ttl)];
    const set = cache.set(
      question("a.test"),
      { rcode: "NOERROR", records },
      50,
      ttl === undefined ? 90 : undefined,
    );
    assertEquals(set.records.map(({ ttl }) => ttl), records.map(() => lifetime));
    seconds += lifetime - 1;
    assertEquals(cache.get(question("A.TEST."))?.records.map(({ ttl }) => ttl), records.map(() => 1));
    seconds += 1;
    assertEquals(cache.get(question("a.test")), undefined, `TTL ${ttl} ends after ${lifetime}`);
  }
  cache.set(question("b.test"), { rcode: "NXDOMAIN", records: [] }, 50, 0);
  seconds += 4;
  assertEquals(cache.get(question("b.test"))?.rcode, "NXDOMAIN");
  assertEquals(cache.get(question("b.test", "AAAA")), undefined);
});

Deno.test("a full cache drops the least recently used answers, by number and by bytes", () => {
  const cache = new DnsCache({ entries: 3, bytes: 1000 });
  const set = (name: string, bytes = 10) =>
    cache.set(question(name), { rcode: "NOERROR", records: [record(name, 60)] }, bytes);
  const has = () => ["a", "b", "c", "d", "e"].filter((name) => cache.get(question(name)));
  for (const name of ["a", "b", "c"]) set(name);
  cache.get(question("a"));
  set("d");
  assertEquals(has(), ["a", "c", "d"]);
  set("e", 985);
  assertEquals(has(), ["d", "e"]);
  assertEquals(set("b", 1001).records.map(({ ttl }) => ttl), [60]);
  assertEquals(has(), ["d", "e"], "an answer that does not fit is not cached");
  set("e", 990);
  assertEquals(has(), ["d", "e"], "answers that fill the cache are kept");
});

Deno.test("resolved addresses agree with their name in any spelling, until newer ones replace them", () => {
  const addresses = new ResolvedAddresses(2, 3);
  addresses.remember("a.test", ["8.8.8.1", "2001:db8::1"]);
  for (const address of ["8.8.8.1", "::ffff:8.8.8.1", "2001:0db8:0::0001"]) {
    assert(addresses.agrees("A.Test.", address));
  }
  assertEquals([addresses.agrees("a.test", "8.8.8.2"), addresses.agrees("b.test", "8.8.8.1")], [
    false,
    false,
  ]);
  addresses.remember("b.test", ["8.8.8.1"]);
  assertEquals([addresses.nameOf("8.8.8.1"), addresses.agrees("a.test", "8.8.8.1")], ["b.test", true]);
  addresses.remember("a.test", ["8.8.8.2", "8.8.8.3"]);
  assertEquals([addresses.agrees("a.test", "8.8.8.1"), addresses.agrees("a.test", "2001:db8::1")], [
    false,
    true,
  ]);
  addresses.remember("c.test", ["8.8.8.9"]);
  assertEquals([addresses.agrees("b.test", "8.8.8.1"), addresses.nameOf("8.8.8.1")], [false, undefined]);
  assertEquals([addresses.agrees("a.test", "8.8.8.3"), addresses.agrees("c.test", "8.8.8.9")], [true, true]);
});

Deno.test("every overridden name has a public address of its own", () => {
  const names = Array.from({ length: 508 }, (_, i) => `n${i}.test`);
  const overrides = Overrides.parse(names.map((name, i) => `${name}=127.0.0.1:${i + 1}`));
  const addresses = names.map((name) => overrides.addressOf(name)!);
  assertEquals(new Set(addresses).size, 508);
  assertEquals(addresses.filter(isPrivateHost), []);
  assertEquals([addresses[0], addresses[253], addresses[254]], [
    "203.0.113.1",
    "203.0.113.254",
    "198.51.100.1",
  ]);
  assertEquals(overrides.nameOf("198.51.100.1"), "n254.test");
  assertEquals(overrides.target("N254.test.", 443), { hostname: "127.0.0.1", port: 255 });
});

Deno.test("an override for one port leaves the other ports of its name without a target", () => {
  const overrides = Overrides.parse(["a.test:443=[2001:db8::1]:8443", "b.test = 127.0.0.1:80"]);
  assertEquals(overrides.target("a.test", 443), { hostname: "2001:db8::1", port: 8443 });
  assertEquals([overrides.target("a.test", 80), overrides.target("x.a.test", 443)], [undefined, undefined]);
  assertEquals(overrides.target("b.test", 9), { hostname: "127.0.0.1", port: 80 });
});

Deno.test("the error of an invalid override names it and its fault", () => {
  const tooMany = Array.from({ length: 509 }, (_, i) => `n${i}.test=127.0.0.1:1`);
  const cases: [string[], string][] = [
    [["a.test"], "does not have the form name=ip:port"],
    [["a=b=c"], "does not have the form"],
    [["*.test=127.0.0.1:1"], 'overrides "*.test", which is not a plain host name'],
    [["192.0.2.1=127.0.0.1:1"], "not a plain host name"],
    [["=127.0.0.1:1"], "not a plain host name"],
    [["a.test=localhost:1"], 'leads to "localhost:1"'],
    [["a.test=127.0.0.1"], 'leads to "127.0.0.1"'],
    [["a.test:0=127.0.0.1:1"], "has the invalid port 0"],
    [["a.test:99999=127.0.0.1:1"], "has the invalid port 99999"],
    [["a.test=127.0.0.1:1", "A.test=127.0.0.1:2"], "a second time"],
    [tooMany, "exceeds the limit of 508 names"],
  ];
  for (const [list, message] of cases) {
    const error = assertThrows(() => Overrides.parse(list), SbxError, message);
    assertEquals(error.code, "network.override.invalid");
    assert(error.message.includes(list.at(-1)!), error.message);
  }
});
