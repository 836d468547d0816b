/** Spellings of a path that a rule names, by which requests passed the rule and reached the resource. */
import { assertEquals } from "@std/assert";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/** A guest whose rules are under attack, and the targets that its upstream received. */
async function attack(rules: string, targets: readonly string[], method = "GET") {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ rules, target: () => upstream.target });
  const statuses: number[] = [];
  for (const target of targets) {
    const client = await net.client();
    const { status } = await client.ask(`${method} ${target} HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
    statuses.push(status);
    client.close();
  }
  upstream.close();
  const sent = upstream.requests.map((request) => request.split(" ").slice(0, 2).join(" "));
  const requests = net.gate.entries.flatMap(({ event }) => event.http?.request ?? []);
  return { statuses, sent, requests };
}

Deno.test("no spelling of a path passes a rule that blocks it", async (t) => {
  const rules = `
[profiles.rules.no-admin]
action = "block"
match = 'http.request.path == "/admin" || http.request.path.startsWith("/x/admin")'
`;
  const targets = [
    "/admin",
    "/%61dmin",
    "/%2561dmin",
    "//admin",
    "/./admin",
    "/x/../admin",
    "/x/%2e%2e/admin",
    "/;/admin",
    "/;x=1/admin",
    "/admin;x=1",
    "/admin/",
    "/\\admin",
    "/%2Fadmin",
    "/%5cadmin",
    "/x%2Fadmin",
    "/x%252fadmin",
    "/x/..%2fadmin",
    "/x/..;/admin",
    "/../admin",
    "/%c0%afadmin",
    "/admin%00",
    `http://${HOST}//admin`,
  ];
  for (const target of targets) {
    await t.step(target, async () => {
      const { statuses, sent } = await attack(rules, [target]);
      assertEquals({ statuses, sent }, { statuses: [403], sent: [] });
    });
  }
});

Deno.test("no half lenient reading of a path passes a rule that blocks it", async (t) => {
  const cases: [match: string, targets: string[]][] = [
    ['http.request.path == "/@scope%2Fname"', ["/%40scope%2fname", "/@scope%2Fname/", "/@scope%2Fname;x"]],
    ['http.request.path == "/p/a%2Fb/$x"', ["/p/a%2Fb/%24x", "/p/a%2Fb/%24x/", "/p/a%2Fb/%24x;y"]],
    ['http.request.path.startsWith("/admin/")', ["/admin;/", "/admin%2F", "/admin;x%2F", "/%2Fadmin%2f"]],
    ['http.request.path == "/matrix;v=1/x"', ["/matrix;v=1%2Fx", "/matrix%3Bv=1/x/"]],
    ['http.request.path == "/admin"', ["/admin%3Fx", "/admin%23x", "/admin%253Fx", "/%2Fadmin%3F"]],
    ['http.request.path == "/x/admin"', ["/x/%25c0%25ae%25c0%25ae/admin", "/x%25C0%25AFadmin"]],
  ];
  for (const [match, targets] of cases) {
    await t.step(match, async () => {
      const rules = `[profiles.rules.no]\naction = "block"\nmatch = '${match}'\n`;
      const { statuses, sent } = await attack(rules, targets);
      assertEquals({ statuses, sent }, { statuses: targets.map(() => 403), sent: [] });
    });
  }
});

Deno.test("no spelling of a path passes as one that a rule allows", async () => {
  const rules = `
[profiles.rules.only-public]
action = "allow"
match = 'http.request.path.startsWith("/public/")'

[profiles.rules.nothing-else]
action = "block"
priority = 20
match = "has(http.request)"
`;
  const targets = [
    "/public/../admin",
    "/public/%2e%2e/admin",
    "/public/..%2fadmin",
    "/public/..%5Cadmin",
    "/public/..;/admin",
    "/public\\..\\admin",
    "/public/%252e%252e%252fadmin",
    "/public/%c0%ae%c0%ae/admin",
    "/public%2Fadmin",
  ];
  const { statuses, sent } = await attack(rules, targets);
  assertEquals(statuses, targets.map(() => 403));
  assertEquals(sent, []);
});

Deno.test("what was matched is what is sent, and the event has both spellings", async () => {
  const { sent, requests } = await attack("", ["//a/./b/%7e/../c?d=%2e%2e//", "/plain"]);
  assertEquals(sent, ["GET /a/b/c?d=%2e%2e//", "GET /plain"]);
  const [{ path, raw_path, query, url }, plain] = requests;
  assertEquals({ path, raw_path, query, url }, {
    path: "/a/b/c",
    raw_path: "//a/./b/%7e/../c",
    query: "d=%2e%2e//",
    url: `http://${HOST}/a/b/c?d=%2e%2e//`,
  });
  assertEquals("raw_path" in plain, false);
});

Deno.test("paths that registries, forges and archives need are sent as they are", async () => {
  const targets = [
    "/@scope%2Fname",
    "/api/v4/projects/group%2Fproject/repository/files/a%2Fb.txt?ref=main",
    "/storage/v1/b/bucket/o/folder%2Fobject",
    "/web/2020/https://example.com/",
    "/a%20b/caf%C3%A9/%E9",
    "/matrix;v=1/x",
    "/.well-known/openid-configuration",
  ];
  const { statuses, sent } = await attack("", targets);
  assertEquals(statuses, targets.map(() => 200));
  assertEquals(sent, targets.map((target) => `GET ${target}`));
});

Deno.test("an allowed path with an encoded separator passes a block of everything else", async () => {
  const rules = `
[profiles.rules.one-project]
action = "allow"
match = 'http.request.path.startsWith("/api/v4/projects/group%2Fproject/")'

[profiles.rules.nothing-else]
action = "block"
priority = 20
match = "has(http.request)"
`;
  const targets = ["/api/v4/projects/group%2fproject/issues", "/api/v4/projects/group%2fother/issues"];
  assertEquals((await attack(rules, targets)).statuses, [200, 403]);
});

Deno.test("a method in lower case is the method", async () => {
  const rules = `
[profiles.rules.no-delete]
action = "block"
match = 'http.request.method == "DELETE"'
`;
  assertEquals(await attack(rules, ["/"], "delete").then(({ statuses, sent }) => ({ statuses, sent })), {
    statuses: [403],
    sent: [],
  });
});

Deno.test("a secret in another spelling of a path is not recorded", async () => {
  const secret = `sk-ant-api03-${"a1B2".repeat(24)}`;
  const escaped = [...secret].map((char) => `%${char.charCodeAt(0).toString(16)}`).join("");
  const { requests } = await attack("", [`/keys/${escaped}`, `/./keys/${secret}`]);
  for (const request of requests) {
    assertEquals(request.raw_path, "[redacted]");
    assertEquals(JSON.stringify(request).includes("sk-ant"), false);
    assertEquals(JSON.stringify(request).includes(escaped), false);
  }
});
