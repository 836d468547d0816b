import { assert, assertEquals, assertMatch } from "@std/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import { eventJsonSchemas, fieldsModule, fieldsPage } from "../../../lib/event/generate.ts";
import {
  catalogue,
  type Event,
  familyOf,
  fieldsOfFamily,
  httpPathClass,
  nearestField,
  newEventId,
  pathClass,
  valueAt,
} from "../../../lib/event/mod.ts";
import { EventSchema, PolicyContextSchema } from "../../../lib/event/schema.ts";
import { eventCommon, httpRequest } from "../../helper/event.ts";
import { runDeno } from "../../helper/repo.ts";

const EVENT: Event = {
  schema_version: 1,
  common: eventCommon("http.request", { event_id: "0123456789ab", sequence: 1 }),
  http: {
    request: httpRequest({ headers: { accept: ["*/*"] } }),
  },
};

Deno.test("a complete event is valid; unknown, missing and foreign parts are rejected", () => {
  assert(EventSchema.safeParse(EVENT).success);
  const { http: _, ...bare } = EVENT;
  const dns = { request: { qname: "x", qtype: "A", transport: "udp" } };
  for (
    const bad of [{ ...EVENT, extra: 1 }, { ...EVENT, common: { ...EVENT.common, event_id: "XYZ" } }, bare, {
      ...EVENT,
      dns,
    }]
  ) {
    assertEquals(EventSchema.safeParse(bad).success, false);
  }
});

Deno.test("a policy context requires only its type, and rejects unknown fields at any depth", () => {
  const context = {
    schema_version: 1,
    common: { event_type: "http.request" },
    http: { request: { host: "x", body: { state: "missing" } } },
  };
  assertEquals(PolicyContextSchema.parse(context) as unknown, context);
  for (
    const bad of [{ common: {} }, { common: { event_type: "http.requests" } }, {
      ...context,
      http: { request: { hots: "x" } },
    }, { ...context, http: { request: { body: { sate: 1 } } } }]
  ) {
    assertEquals(PolicyContextSchema.safeParse(bad).success, false);
  }
});

Deno.test("the field catalogue matches the schema", async () => {
  const url = new URL("../../../lib/event/fields.ts", import.meta.url);
  assertEquals(await Deno.readTextFile(url), fieldsModule(), "stale: make docs");
  const page = new URL("../../../docs/reference/event-fields.md", import.meta.url);
  assertEquals(await Deno.readTextFile(page), fieldsPage(), "stale: make docs");
  assertEquals(catalogue.get("http.request.port"), { type: "number", cel: "int" });
  assertEquals(catalogue.get("http.request.headers")?.cel, "map<string, list<string>>");
  assertEquals(catalogue.get("file.activity.operation")?.values, [
    "read",
    "write",
    "create",
    "delete",
    "rename",
    "import",
    "export",
  ]);
  assert(fieldsOfFamily("dns").every((path) => path.startsWith("dns.") || path.startsWith("common.")));
});

Deno.test("the JSON Schemas are current and agree with zod", async () => {
  for (const [name, schema] of Object.entries(eventJsonSchemas())) {
    const written = JSON.parse(await Deno.readTextFile(new URL(`../../../schemas/${name}`, import.meta.url)));
    assertEquals(
      written,
      JSON.parse(JSON.stringify(schema)),
      `${name} is stale: make docs`,
    );
  }
  const validate = new Ajv2020({ strict: false }).compile(
    eventJsonSchemas()["sbx.event.v1.schema.json"] as object,
  );
  assert(validate(EVENT));
  assertEquals(validate({ ...EVENT, extra: 1 }), false);
});

for (const entry of ["lib/event/mod.ts", "lib/ledger/mod.ts", "lib/policy/mod.ts"]) {
  Deno.test(`${entry} loads neither zod nor the database, for a fast start of sbx-process`, async () => {
    const { modules, roots } = JSON.parse(await runDeno(["info", "--json", entry])) as {
      roots: string[];
      modules: { specifier: string; dependencies?: { specifier: string; code?: { specifier?: string } }[] }[];
    };
    const byName = new Map(modules.map((module) => [module.specifier, module]));
    const seen = new Set(roots);
    for (const specifier of seen) {
      for (const { code } of byName.get(specifier)?.dependencies ?? []) {
        if (code?.specifier) seen.add(code.specifier);
      }
    }
    assertEquals([...seen].filter((specifier) => /zod|sqlite/.test(specifier)), []);
    assert(seen.size > 3);
  });
}

Deno.test("a misspelled field gets the nearest path", () => {
  assertEquals(nearestField("http.request.hots"), "http.request.host");
  assertEquals(nearestField("process.activity.comand"), "process.activity.command");
  assertEquals(nearestField("zzzzzzzz"), undefined);
});

Deno.test("values are read by path, own properties only", () => {
  assertEquals(valueAt(EVENT, "http.request.body.state"), "missing");
  assertEquals(valueAt(EVENT, "http.response.status"), undefined);
  assertEquals(valueAt(EVENT, "http.request.headers.constructor"), undefined);
});

Deno.test("event ids are 12 hex characters and unique", () => {
  const ids = Array.from({ length: 10_000 }, newEventId);
  for (const id of ids) assertMatch(id, /^[0-9a-f]{12}$/);
  assertEquals(new Set(ids).size, ids.length);
});

Deno.test("the family is the part before the dot", () => {
  assertEquals(familyOf("mcp.tool_call"), "mcp");
  assertEquals(familyOf("credential.substitution"), "credential");
});

const CLASSES: [string, string][] = [
  ["/workspace/src/a.ts", "workspace"],
  ["/workspace", "workspace"],
  ["/workspaces/a", "other"],
  ["/workspace/.env", "secret"],
  ["/workspace/.env.local", "secret"],
  ["/workspace/.environment", "workspace"],
  ["/root/.ssh/config", "secret"],
  ["/root/.config/gh/hosts.yml", "secret"],
  ["/etc/shadow", "secret"],
  ["/workspace/server.pem", "secret"],
  ["/workspace/../etc/passwd", "system"],
  ["/etc/../workspace/a", "workspace"],
  ["/root/notes", "home"],
  ["/home/x/y", "home"],
  ["/var/tmp/x", "temp"],
  ["/var/log/x", "system"],
  ["/proc/self/environ", "device"],
  ["/data", "other"],
];
for (const [path, expected] of CLASSES) {
  Deno.test(`${path} is ${expected}`, () => assertEquals(pathClass(path), expected));
}

Deno.test("a profile's classes: the longest path decides, and no secret name is hidden", () => {
  const named = { "/srv": "temp", "/srv/keys": "secret", "/tmp/b": "workspace" } as const;
  const classes = ["/srv/x", "/srv/keys", "/srv/keys/a/b", "/srv/keysx", "/srv/.env", "/tmp/b/c", "/tmp/bc"];
  assertEquals(classes.map((path) => pathClass(path, named)), [
    "temp",
    "secret",
    "secret",
    "temp",
    "secret",
    "workspace",
    "temp",
  ]);
});

Deno.test("URL paths are classified", () => {
  const classes = ["/", "/oauth2/token", "/api/v1/x", "/v2/items", "/logo.svg", "/about"].map(httpPathClass);
  assertEquals(classes, ["root", "auth", "api", "api", "static", "other"]);
});
