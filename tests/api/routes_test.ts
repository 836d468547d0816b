/** Every route of the service, through the real gateway: nothing without the token, and a clear error for what is not there. */
import { assertEquals } from "@std/assert";
import { routeTable } from "../../lib/api/mod.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("every route, with and without the token", async (t) => {
  const sbx = await Sbx.make();
  try {
    await sbx.ok("start");
    const routes = routeTable().map(({ method, path }) => ({
      method,
      path: path.replaceAll(/{\w+}/g, "nobody"),
    }));

    await t.step("without the token, or with a wrong one, there is nothing but 401", async () => {
      for (const { method, path } of routes) {
        const response = await fetch(sbx.base + path, { method });
        assertEquals(
          [response.status, (await response.json()).code],
          [401, "auth.missing_token"],
          `${method} ${path}`,
        );
      }
      const wrong = await fetch(`${sbx.base}/vms/list`, {
        headers: { authorization: `Bearer ${"x".repeat(64)}` },
      });
      assertEquals([wrong.status, (await wrong.json()).code], [401, "auth.bad_token"]);
    });

    await t.step("with it, a VM that is not there is 404 on every route of a VM", async () => {
      for (const { method, path } of routes.filter(({ path }) => path.startsWith("/vms/nobody/"))) {
        const query = path.includes("/files/") ? "?path=a" : "";
        const json = path.endsWith("/exec") ? { command: "true" } : undefined;
        const response = await sbx.fetch(path + query, { method, json });
        assertEquals(
          [response.status, (await response.json()).code],
          [404, "vm.not_found"],
          `${method} ${path}`,
        );
      }
    });

    await t.step("what is not a route is 404, also with the method of another", async () => {
      for (
        const [method, path] of [["GET", "/nope"], ["GET", "/vms/create"], ["POST", "/vms/list"], [
          "GET",
          "/vms/a%2Fb/info",
        ], ["PUT", "/run"]]
      ) {
        const { status, body } = await sbx.api(method, path);
        assertEquals(
          [status >= 400 && status < 500, typeof body.code],
          [true, "string"],
          `${method} ${path} → ${status}`,
        );
      }
    });

    await t.step("the API describes itself, with every route", async () => {
      const { body } = await sbx.api("GET", "/openapi.json");
      const described = Object.entries(body.paths).flatMap(([path, methods]) =>
        Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`)
      );
      const known = routeTable().map(({ method, path }) => `${method} ${path}`).filter((route) =>
        route !== "GET /openapi.json"
      );
      assertEquals(described.sort(), known.sort());
    });

    await t.step("only its user can open what it keeps", async () => {
      for (const path of ["run/service.sock", "run/gateway.token", "run/service.pid"]) {
        assertEquals(((await Deno.stat(`${sbx.home}/${path}`)).mode ?? 0) & 0o077, 0, path);
      }
    });
  } finally {
    await sbx.dispose();
  }
});
