import { assertEquals } from "@std/assert";
import { canonicalPath, lenientPath } from "../../../lib/base/url/mod.ts";

Deno.test("a path has one canonical spelling, which is its own", () => {
  const cases: [path: string, canonical: string][] = [
    ["/", "/"],
    ["/admin", "/admin"],
    ["/admin/", "/admin/"],
    ["/%61dmin", "/admin"],
    ["/%61%2dm%7ein", "/a-m~in"],
    ["//admin", "/admin"],
    ["///a///b//", "/a/b/"],
    ["/./admin", "/admin"],
    ["/x/../admin", "/admin"],
    ["/x/%2e%2E/admin", "/admin"],
    ["/a/b/..", "/a/"],
    ["/a/.", "/a/"],
    ["/a/..", "/"],
    ["/a//../b", "/b"],
    ["\\admin\\x", "/admin/x"],
    ["/a\\..\\b", "/b"],
    ["/.well-known/x", "/.well-known/x"],
    ["/...", "/..."],
    ["/100%", "/100%25"],
    ["/%u0061dmin", "/%25u0061dmin"],
    ["/%%36%31", "/%2561"],
    ["/@scope%2fname", "/@scope%2Fname"],
    ["/api/v4/projects/group%2Fproject/issues", "/api/v4/projects/group%2Fproject/issues"],
    ["/caf%c3%a9/%E9", "/caf%C3%A9/%E9"],
    ["/%e0%b8%81", "/%E0%B8%81"],
    ["/web/2020/https://example.com//a", "/web/2020/https://example.com/a"],
    ["/a;b=1/c", "/a;b=1/c"],
    ["/v1beta/models/x:generateContent", "/v1beta/models/x:generateContent"],
    ["/a b", "/a b"],
  ];
  for (const [path, canonical] of cases) {
    assertEquals(canonicalPath(path), { path: canonical }, path);
    assertEquals(canonicalPath(canonical), { path: canonical }, `again: ${path}`);
  }
});

Deno.test("a path that servers read in different ways has no canonical spelling", () => {
  const cases: [path: string, fault: string][] = [
    ["/../admin", "above the root"],
    ["/a/../../admin", "above the root"],
    ["/%2e%2e/admin", "above the root"],
    ["/a/..%2fadmin", "an encoded dot segment"],
    ["/a%2f..%2fadmin", "an encoded dot segment"],
    ["/a/..%5cadmin", "an encoded dot segment"],
    ["/a/..;/admin", "an encoded dot segment"],
    ["/a/.;x=1/admin", "an encoded dot segment"],
    ["/a/%252e%252e/admin", "an encoded dot segment"],
    ["/a/%25252e%25252e/admin", "an encoded dot segment"],
    ["/a%00", "a control character"],
    ["/a%0d%0Ab", "a control character"],
    ["/a%7f", "a control character"],
    ["/a%2500", "a control character"],
    ["/a/%c0%ae%c0%ae/admin", "an overlong"],
    ["/a%c0%afadmin", "an overlong"],
    ["/a%e0%80%afadmin", "an overlong"],
    ["/a%f0%80%80%afadmin", "an overlong"],
  ];
  for (const [path, fault] of cases) {
    assertEquals(canonicalPath(path).fault?.includes(fault), true, `${path}: ${canonicalPath(path).fault}`);
  }
});

Deno.test("a lenient server decodes escapes, drops parameters and empty segments", () => {
  const cases: [path: string, lenient: string][] = [
    ["/", "/"],
    ["", ""],
    ["*", "*"],
    ["/admin", "/admin"],
    ["/admin/", "/admin"],
    ["/;/admin", "/admin"],
    ["/admin;x=1", "/admin"],
    ["/x%2Fadmin", "/x/admin"],
    ["/x%5Cadmin", "/x/admin"],
    ["/%40scope%2Fname", "/@scope/name"],
    ["/%2561dmin", "/admin"],
    ["/a%3Bx/admin", "/a/admin"],
    ["/web/https://example.com", "/web/https:/example.com"],
    ["/caf%C3%A9", "/caf%C3%A9"],
  ];
  for (const [path, lenient] of cases) assertEquals(lenientPath(path), lenient, path);
});

Deno.test("random paths: the canonical spelling is stable and has no dot segments in any reading", () => {
  const parts = [
    "/",
    "/",
    ".",
    "..",
    "%2e",
    "%2F",
    "%5c",
    "\\",
    ";",
    "a",
    "%61",
    "%25",
    "2e",
    ":",
    "%",
    "//",
  ];
  let state = 7;
  const next = () => state = (state * 1103515245 + 12345) & 0x7fffffff;
  for (let run = 0; run < 20_000; run++) {
    let path = "/";
    for (let count = next() % 9; count >= 0; count--) path += parts[(next() >> 8) % parts.length];
    const { path: canonical } = canonicalPath(path);
    if (canonical === undefined) continue;
    assertEquals(canonicalPath(canonical), { path: canonical }, path);
    for (const reading of [canonical, lenientPath(canonical)]) {
      assertEquals(
        reading.split("/").filter((segment) => /^\.\.?$/.test(segment)),
        [],
        `${path}: ${reading}`,
      );
    }
  }
});
