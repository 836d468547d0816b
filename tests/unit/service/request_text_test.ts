/** Errors of invalid requests: the field as its sender knows it, in our own words. */
import { assertEquals } from "@std/assert";
import { Hono } from "hono";
import { handle } from "../../../cmd/service/handle.ts";
import { credentialRoutes, detectionRoutes, vmRoutes } from "../../../lib/client/api/mod.ts";
import { errorBody, SbxError, statusOf } from "../../../lib/base/error/mod.ts";

const app = new Hono();
for (const route of [vmRoutes.create, detectionRoutes.put, credentialRoutes.add]) {
  handle(app, route, () => Response.json({}));
}
app.onError((error, context) =>
  error instanceof SbxError
    ? context.json(errorBody(error), statusOf(error.code) as 400)
    : context.json({ error: String(error) }, 500)
);

async function told(path: string, json: unknown): Promise<[number, string]> {
  const response = await app.request(path, {
    method: "POST",
    body: JSON.stringify(json),
    headers: { "content-type": "application/json" },
  });
  return [response.status, (await response.json()).error];
}

Deno.test("a wrong request is told which field is wrong, in words", async () => {
  const name = "must start with a letter or digit, then letters, digits, _ and -, at most 64 characters";
  assertEquals(await told("/vms/create", { name: "a b" }), [400, `name: ${name}`]);
  assertEquals(await told("/vms/create", { cpus: "2" }), [400, "cpus: must be a number"]);
  assertEquals(await told("/vms/create", []), [422, "body: must be an object"]);
  assertEquals((await told("/vms/create", { nme: "a" }))[0], 422);
  const [status, pack] = await told("/detection", { pack: "text" });
  assertEquals([status, pack], [400, "pack: must be an object"]);
});
