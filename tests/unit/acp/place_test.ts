import { assertEquals } from "@std/assert";
import { Place } from "../../../lib/acp/mod.ts";

const place = new Place({ host: ["/real/My calc", "/home/me/calc"], guest: "/root/calc" });

Deno.test("a path of the folder has a twin on the other side, and no other path has one", () => {
  const inward: [string, string | undefined][] = [
    ["/real/My calc", "/root/calc"],
    ["/home/me/calc/", "/root/calc"],
    ["/home/me/calc/src/a b.ts", "/root/calc/src/a b.ts"],
    ["/home/me/calc//src", "/root/calc/src"],
    ["/home/me/calculator/x", undefined],
    ["/home/me", undefined],
    ["/home/me/calc/../other", undefined],
    ["/home/me/calc/./x", undefined],
    ["home/me/calc", undefined],
    ["/home/me/calc/\0", undefined],
    [`/home/me/calc/${"x".repeat(5000)}`, undefined],
  ];
  for (const [path, own] of inward) assertEquals(place.toGuest(path), own, path);
  const outward: [string, string | undefined][] = [
    ["/root/calc/src/a.ts", "/real/My calc/src/a.ts"],
    ["/root/calc", "/real/My calc"],
    ["/root/calc/../../etc/passwd", undefined],
    ["/root/calculator", undefined],
    ["/etc/passwd", undefined],
    ["/real/My calc/x", undefined],
  ];
  for (const [path, own] of outward) assertEquals(place.toHost(path), own, path);
});

Deno.test("an address of a file is translated like its path, with its line", () => {
  const addresses: [string, string | undefined][] = [
    ["file:///root/calc/a%20b.ts", "file:///real/My%20calc/a%20b.ts"],
    ["file:///root/calc/a.ts#L3:5", "file:///real/My%20calc/a.ts#L3:5"],
    ["file:///root/calc/../../etc/passwd", undefined],
    ["file:///root/calc/%2e%2e/%2E./etc/passwd", undefined],
    ["file:///root/calc/a%2f..%2f..%2fx", undefined],
    ["file:///etc/passwd", undefined],
    ["file://server/root/calc/a.ts", undefined],
    ["https://example.com/root/calc", undefined],
    ["zed://extension/x", undefined],
    ["/root/calc/a.ts", undefined],
  ];
  for (const [uri, own] of addresses) assertEquals(place.uriToHost(uri), own, uri);
  assertEquals(place.uriToGuest("file:///home/me/calc/a.ts"), "file:///root/calc/a.ts");
  assertEquals(place.uriToGuest("file:///home/me/.ssh/id_rsa"), undefined);
});
