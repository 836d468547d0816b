/** The page's client: addresses of routes, by the service's own definitions. */
import { assertEquals } from "@std/assert";
import { addressOf } from "../../../cmd/desktop/api/address.ts";

Deno.test("desktop: parameters are one segment each, and a query has what is asked for", () => {
  assertEquals(addressOf("GET", "/vms/{id}/info", { id: "../x?y#z" }), "/vms/..%2Fx%3Fy%23z/info");
  assertEquals(
    addressOf("GET", "/vms/{id}/files/list", { id: "dev" }, { path: "a b&c", depth: "1" }),
    "/vms/dev/files/list?path=a+b%26c&depth=1",
  );
  assertEquals(
    addressOf("GET", "/sessions/{id}/events", { id: "s" }, { family: "", grep: undefined }),
    "/sessions/s/events",
  );
});

Deno.test("desktop: what the service has no route, parameter or condition for does not compile", () => {
  // @ts-expect-error no such route
  addressOf("GET", "/vms/{id}/nothing", { id: "dev" });
  // @ts-expect-error another method
  addressOf("POST", "/vms/{id}/info", { id: "dev" });
  // @ts-expect-error another parameter
  addressOf("GET", "/vms/{id}/info", { vm: "dev", id: "dev" });
  // @ts-expect-error no such condition
  addressOf("GET", "/vms/{id}/files/list", { id: "dev" }, { deep: "1" });
});
