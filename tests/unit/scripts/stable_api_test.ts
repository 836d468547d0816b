/**
 * The stable API only grows: its committed form against this checkout, and every kind of
 * change that would break a client.
 */
import { assert, assertEquals } from "@std/assert";
import { openApi } from "../../../cmd/service/app.ts";
import { breakingChanges, STABLE_FILE, stableDocument } from "../../../scripts/stable_api.ts";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("the stable routes have grown at most, and their file is the one of this checkout", async () => {
  const committed = JSON.parse(await Deno.readTextFile(fromRoot(STABLE_FILE)));
  // Undefined values have no place in the file.
  const now = JSON.parse(JSON.stringify(stableDocument(openApi())));
  assertEquals(breakingChanges(committed, now), []);
  assertEquals(now, committed, "stale: run make docs");
  assert(Object.keys(now.paths).length > 30);
});

const document = () => ({
  components: {
    schemas: { Vm: { type: "object", properties: { id: { type: "string" } }, required: ["id"] } },
  },
  paths: {
    "/vms": {
      post: {
        parameters: [{ name: "all", in: "query", schema: { type: "string", enum: ["true", "false"] } }],
        requestBody: {
          content: {
            "application/json": {
              schema: { type: "object", properties: { cpus: { type: "integer", maximum: 8 } } },
            },
          },
        },
        responses: {
          200: { content: { "application/json": { schema: { $ref: "#/components/schemas/Vm" } } } },
        },
      },
    },
  },
});
// deno-lint-ignore no-explicit-any
type Any = any;

const CASES: [name: string, change: (now: Any) => void, problems: string[]][] = [
  ["nothing", () => {}, []],
  ["a new route", (now) => now.paths["/new"] = { get: { responses: {} } }, []],
  ["a new field of an answer", (now) => now.components.schemas.Vm.properties.name = { type: "string" }, []],
  ["a new field of a request", (now) => bodyOf(now).properties.ram = { type: "integer" }, []],
  ["a higher limit", (now) => bodyOf(now).properties.cpus.maximum = 16, []],
  ["a route gone", (now) => delete now.paths["/vms"], ["POST /vms: the route is gone"]],
  ["an answer's field gone", (now) => delete now.components.schemas.Vm.properties.id, [
    "POST /vms answer: the field id is gone",
  ]],
  ["an answer's field optional", (now) => now.components.schemas.Vm.required = [], [
    "POST /vms answer: the field id may be absent now",
  ]],
  ["an answer's field null", (now) => now.components.schemas.Vm.properties.id.type = ["string", "null"], [
    "POST /vms answer.id: it may be null now",
  ]],
  ["a request's field gone", (now) => delete bodyOf(now).properties.cpus, [
    "POST /vms body: the field cpus is gone",
  ]],
  ["a request's field required", (now) => bodyOf(now).required = ["cpus"], [
    "POST /vms body: the field cpus is required now",
  ]],
  ["a lower limit", (now) => bodyOf(now).properties.cpus.maximum = 4, [
    "POST /vms body.cpus: maximum is 4 now",
  ]],
  ["a new pattern", (now) => bodyOf(now).properties.cpus.pattern = "^1$", [
    "POST /vms body.cpus: fewer values are taken",
  ]],
  ["a value less", (now) => now.paths["/vms"].post.parameters[0].schema.enum.pop(), [
    'POST /vms all: "false" is no longer taken',
  ]],
  ["a parameter gone", (now) => now.paths["/vms"].post.parameters = [], [
    "POST /vms: the parameter all is gone",
  ]],
  [
    "a parameter required",
    (now) => now.paths["/vms"].post.parameters.push({ name: "x", in: "query", required: true, schema: {} }),
    [
      "POST /vms: the parameter x is required now",
    ],
  ],
  ["a body required", (now) => now.paths["/vms"].post.requestBody.required = true, [
    "POST /vms: a body is required now",
  ]],
];

for (const [name, change, problems] of CASES) {
  Deno.test(`the stable API: ${name}`, () => {
    const now = document();
    change(now);
    assertEquals(breakingChanges(document(), now), problems);
  });
}

function bodyOf(now: Any): Any {
  return now.paths["/vms"].post.requestBody.content["application/json"].schema;
}
