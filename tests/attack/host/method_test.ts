/** Methods that a request hides from rules and that servers take instead of its own. */
import { assertEquals } from "@std/assert";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

const NO_DELETE = `
[profiles.rules.no-delete]
action = "block"
match = 'http.request.method == "DELETE"'
detection_level = "high"
`;
const READ_ONLY = `
[profiles.rules.read]
action = "allow"
match = 'http.request.method in ["GET", "HEAD", "POST"]'
priority = 10

[profiles.rules.rest]
action = "block"
match = 'has(http.request)'
priority = 20
`;

const form = (body: string, type = "application/x-www-form-urlencoded") =>
  `POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const get = (target: string, ...headers: string[]) =>
  [`GET ${target} HTTP/1.1`, "Host: a.test", ...headers, "", ""].join("\r\n");

const REQUESTS = {
  header: get("/x", "X-HTTP-Method-Override: DELETE"),
  "header, lower case": get("/x", "x-method-override: delete"),
  "header of SharePoint": get("/x", "X-HTTP-Method: DELETE"),
  "header with underscores": get("/x", "X_HTTP_METHOD_OVERRIDE: DELETE"),
  "second header": get("/x", "X-HTTP-Method-Override: GET", "X-HTTP-Method-Override: DELETE"),
  "list in a header": get("/x", "X-HTTP-Method-Override: GET, DELETE"),
  query: get("/x?a=1&_method=DELETE"),
  "query, escaped": get("/x?%5Fmethod=%44elete"),
  "query of Salesforce": get("/x?_HttpMethod=DELETE"),
  "query after a semicolon": get("/x?a=1;_method=DELETE"),
  form: form("a=1&_method=delete"),
  "form, escaped": form("a=1&%5fmethod=%64elete"),
  "form in parts": form(
    '--b\r\nContent-Disposition: form-data; name="_method"\r\n\r\nDELETE\r\n--b--\r\n',
    "multipart/form-data; boundary=b",
  ),
  "long JSON": form(`{"_method": "DELETE", "a": "${"x".repeat(70_000)}"}`, "application/json"),
  "JSON": form('{"a": 1, "\\u005fmethod": "DELETE"}', "application/json"),
};

/** Sends one request under rules. @returns status, deciding rule, and whether the upstream got it */
async function send(rules: string, request: string): Promise<[number, string, number]> {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ rules, target: () => upstream.target });
  const client = await net.client();
  const { status } = await client.ask(request);
  client.close();
  upstream.close();
  return [status, net.gate.entries[0].decision!.rule.id, upstream.requests.length];
}

for (const [what, request] of Object.entries(REQUESTS)) {
  Deno.test(`a method in a ${what} passes no rule on methods`, async () => {
    assertEquals(await send(NO_DELETE, request), [403, "no-delete", 0]);
    assertEquals(await send(READ_ONLY, request), [403, "rest", 0]);
  });
}

Deno.test("other requests pass, and a rule that strips the header makes a request pass", async () => {
  const bodies = [
    form("a=1&payment_method=delete"),
    form(
      '{"messages": [{"content": "<input name=_method value=DELETE> _method=DELETE \\"_method\\": \\"DELETE\\""}]}',
      "application/json",
    ),
    get("/x?method=DELETE", "X-HTTP-Method-Override: POST"),
    get("/x?_method="),
  ];
  for (const request of bodies) assertEquals(await send(READ_ONLY, request), [200, "read", 1], request);
  const strip = `
[profiles.rules.strip]
action = "rewrite"
match = 'has(http.request)'
rewrite = [{ op = "strip_header", path = "x-http-method-override" }]
priority = 10
`;
  assertEquals(await send(NO_DELETE + strip, REQUESTS.header), [200, "allow-http", 1]);
  assertEquals(await send(strip + READ_ONLY, REQUESTS.header), [200, "read", 1]);
});

Deno.test("too many methods are refused, and a hidden method makes findings", async () => {
  const many = Array.from({ length: 20 }, (_, at) => `M${String.fromCharCode(65 + at)}`).join(", ");
  assertEquals(await send("", get("/x", `X-HTTP-Method-Override: ${many}`)), [403, "guard-evaluation", 0]);
  await using net = await TestNet.open({ rules: NO_DELETE });
  const client = await net.client();
  await client.ask(REQUESTS.header);
  client.close();
  assertEquals(net.gate.entries[0].findings.map(({ rule_id }) => rule_id), ["no-delete"]);
  assertEquals(net.gate.entries[0].event.http!.request.method, "GET");
});

Deno.test("a form that names methods thousands of times is refused", async () => {
  const body = 'Content-Disposition: form-data; name="_method"\r\n'.repeat(1200);
  const request = form(body, "multipart/form-data; boundary=b");
  assertEquals(await send(NO_DELETE, request), [403, "guard-evaluation", 0]);
});

Deno.test("a hidden method and another spelling of a path are read together", async () => {
  const rules = `
[profiles.rules.no-admin]
action = "block"
match = 'http.request.method == "DELETE" && http.request.path.startsWith("/x/admin")'
`;
  const request = get("/x%2Fadmin", "X-HTTP-Method-Override: DELETE");
  assertEquals(await send(rules, request), [403, "no-admin", 0]);
});
