/** Namespacing, server definitions and their sources (docs/design/contracts/08-mcp.md §8). */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { readDefinitions } from "../../../lib/mcp/definition.ts";
import {
  definitionsOf,
  namespacedName,
  namespacedUri,
  programsOf,
  serverNameProblem,
  splitName,
  splitUri,
} from "../../../lib/mcp/mod.ts";
import { McpServers } from "../../../lib/config/profile/mod.ts";

Deno.test("mcp names: tool names split at the first __, resource URIs after the server", () => {
  const names: [string, [string, string] | undefined][] = [
    ["a__b", ["a", "b"]],
    ["a__b__c", ["a", "b__c"]],
    ["a____b", ["a", "__b"]],
    ["_a__b", ["_a", "b"]],
    ["a_b", undefined],
    ["__b", undefined],
    ["a__", undefined],
    ["", undefined],
  ];
  for (const [name, split] of names) {
    assertEquals(splitName(name), split && { server: split[0], name: split[1] }, name);
  }
  const uris: [string, [string, string] | undefined][] = [
    ["sbx://a/file:///x/y", ["a", "file:///x/y"]],
    ["sbx://a/b", ["a", "b"]],
    ["sbx://a/", undefined],
    ["sbx:///b", undefined],
    ["sbx://a", undefined],
    ["file:///x", undefined],
    ["SBX://a/b", undefined],
  ];
  for (const [uri, split] of uris) {
    assertEquals(splitUri(uri), split && { server: split[0], name: split[1] }, uri);
  }
});

Deno.test("mcp names: namespaced names split into their parts", () => {
  for (const name of ["tool", "__tool", "a__b", "with space", "🦀"]) {
    assertEquals(splitName(namespacedName("srv", name)), { server: "srv", name });
    assertEquals(splitUri(namespacedUri("srv", name)), { server: "srv", name });
  }
});

Deno.test("mcp names: ambiguous or unreadable server names are invalid", () => {
  const problems: [string, RegExp | undefined][] = [
    ["", /empty/],
    ["builtin", /builtin/],
    ["a__b", /__/],
    ["a_", /end with _/],
    ["a/b", /\//],
    ["a\nb", /control/],
    ["a\u200bb", /invisible/],
    ["x".repeat(129), /longer/],
    ["github", undefined],
    ["a-b_c.d", undefined],
    ["Builtin", undefined],
  ];
  for (const [name, problem] of problems) {
    if (problem) assertMatch(serverNameProblem(name) ?? "", problem);
    else assertEquals(serverNameProblem(name), undefined);
  }
});

Deno.test("mcp definitions: an invalid one is reported with its reason and affects no other", () => {
  const url = "https://mcp.example.com/mcp";
  const ref = `credential:blake3:${"0".repeat(64)}`;
  const { definitions, problems } = readDefinitions([
    { name: "plain", url },
    {
      name: "full",
      url,
      headers: { "x-team": "a" },
      auth: { kind: "oauth", credential_ref: ref },
      enabled: false,
      source: "corp",
      unsupported_stdio: false,
    },
    { name: "stdio", unsupported_stdio: true },
    { name: "nulls", url, headers: null, auth: null },
    { name: "plain", url: "https://other.example.com" },
    { name: "builtin", url },
    { name: "a__b", url },
    { name: "", url },
    { name: "no-url" },
    { name: "scheme", url: "file:///etc/passwd" },
    { name: "extra", url, command: "rm" },
    { name: "secret", url, headers: { Authorization: "Bearer x" } },
    { name: "key", url, headers: { "x-api-key": "x" } },
    { name: "token", url, auth: { kind: "oauth", credential_ref: "sk-ant-1" } },
    "text",
    null,
  ])!;
  assertEquals(definitions.map(({ name }) => name), ["plain", "full", "stdio", "nulls"]);
  assertEquals(definitions[0], {
    name: "plain",
    url,
    headers: {},
    enabled: true,
    source: "",
    unsupported_stdio: false,
  });
  assertEquals(problems.length, 12);
  for (const problem of problems) {
    assertEquals(problem.includes("sk-ant-1") || problem.includes("Bearer x"), false, problem);
  }
  assertEquals(readDefinitions({ name: "x" }), undefined);
});

Deno.test("mcp definitions: corp servers come first, cannot be replaced, and disable profile servers", () => {
  const profile = McpServers.parse({
    local: { name: "Local", builtin: true },
    github: { name: "GitHub", url: "https://github.example/mcp" },
    corp_db: { name: "Mine", url: "https://attacker.example/mcp" },
    off: { name: "Off", url: "https://off.example/mcp" },
    files: { name: "Files", command: "/usr/bin/files", args: ["--root", "/"], env: { MODE: "ro" } },
    idle: { name: "Idle", command: "/usr/bin/idle", enabled: false },
    mine: { name: "Mine", url: "https://mine.example/mcp", enabled: false },
  });
  const corp = {
    ...McpServers.parse({
      corp_db: { name: "DB", url: "https://db.corp.example/mcp", headers: { "x-team": "a" } },
    }),
    off: { enabled: false as const },
    unknown: { enabled: false as const },
  };
  const found = definitionsOf(profile, corp).map((
    d,
  ) => [d.name, d.url, d.source, d.enabled, d.stdio ?? false]);
  assertEquals(found, [
    ["corp_db", "https://db.corp.example/mcp", "corp", true, false],
    ["github", "https://github.example/mcp", "profile", true, false],
    ["off", "https://off.example/mcp", "corp", false, false],
    ["files", "", "profile", true, true],
    ["idle", "", "profile", false, true],
    ["mine", "https://mine.example/mcp", "profile", false, false],
  ]);
  assertEquals(readDefinitions(definitionsOf(profile, corp))!.problems, []);
  // The aggregator gets no program, argument or variable.
  assert(!JSON.stringify(definitionsOf(profile, corp)).includes("/usr/bin/files"));
});

Deno.test("mcp programs: of enabled stdio servers, and corp's count more than the profile's", () => {
  const profile = McpServers.parse({
    files: { name: "Files", command: "/usr/bin/files", args: ["--root", "/"], env: { MODE: "ro" } },
    idle: { name: "Idle", command: "/usr/bin/idle", enabled: false },
    web: { name: "Web", url: "https://web.example/mcp" },
    tool: { name: "Mine", command: "/home/me/tool" },
    off: { name: "Off", command: "/usr/bin/off" },
  });
  const corp = {
    ...McpServers.parse({ tool: { name: "Tool", command: "/opt/corp/tool" } }),
    off: { enabled: false as const },
  };
  assertEquals(
    programsOf(profile, corp),
    new Map([
      ["tool", { argv: ["/opt/corp/tool"], env: {} }],
      ["files", { argv: ["/usr/bin/files", "--root", "/"], env: { MODE: "ro" } }],
    ]),
  );
});
