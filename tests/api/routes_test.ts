/**
 * Every route of the service, through the real gateway: nothing without the token, and a
 * clear error for what is not there.
 */
import { assertEquals } from "@std/assert";
import { routeTable, type RuleSaved } from "../../lib/client/api/mod.ts";
import { parseExposition } from "../helper/exposition.ts";
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

    await t.step(
      "every answer names the version of the API; another one and a bad key are refused",
      async () => {
        const asked = async (headers: Record<string, string>, path = "/vms/list", method = "GET") => {
          const response = await sbx.fetch(path, { method, headers });
          const { code } = await response.json();
          return [response.status, code, response.headers.get("sbx-api-version")];
        };
        assertEquals(await asked({ "sbx-api-version": "1" }), [200, undefined, "1"]);
        assertEquals(await asked({ "sbx-api-version": "2" }), [400, "api.version", "1"]);
        assertEquals(await asked({ "idempotency-key": "a b" }, "/vms/create", "POST"), [
          400,
          "request.invalid",
          "1",
        ]);
        const { headers } = await fetch(`${sbx.base}/vms/list`);
        assertEquals(headers.get("sbx-api-version"), "1");
      },
    );

    await t.step("metrics are text that Prometheus reads, and count these requests", async () => {
      const response = await sbx.fetch("/metrics");
      assertEquals(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
      await (await sbx.fetch("/vms/list")).body?.cancel();
      const { samples } = parseExposition(await (await sbx.fetch("/metrics")).text()).get(
        "sbx_api_requests_total",
      )!;
      const of = (route: string) => samples.find(({ labels }) => labels.route === route)?.value ?? 0;
      assertEquals([of("/metrics") > 0, of("/vms/list") > 0], [true, true]);
      await response.body?.cancel();
    });

    await t.step("with it, a VM that is not there is 404 on every route of a VM", async () => {
      for (const { method, path } of routes.filter(({ path }) => path.startsWith("/vms/nobody/"))) {
        const query = path.includes("/files/") ? "?path=a" : "";
        const runs = path.endsWith("/exec") || (method === "POST" && path.endsWith("/jobs"));
        const forwards = method === "POST" && path.endsWith("/ports");
        const protects = path.endsWith("/snapshots/protect") || path.endsWith("/states/keep");
        const json = runs
          ? { command: "true" }
          : forwards
          ? { guest_port: 80 }
          : path.endsWith("/set")
          ? { cpus: 2 }
          : protects
          ? { reason: "a test" }
          : method === "POST" && path.endsWith("/repositories")
          ? { dir: "/tmp" }
          : path.endsWith("/work/take")
          ? { units: [{ path: "", tree: "0".repeat(40), files: [{ file: 0 }] }] }
          : undefined;
        const response = await sbx.fetch(path + query, { method, json });
        assertEquals(
          [response.status, (await response.json()).code],
          [404, "vm.not_found"],
          `${method} ${path}`,
        );
      }
    });

    await t.step(
      "what is not a route is 404; a method of no route of the path is 405 with those it has",
      async () => {
        for (const [method, path] of [["GET", "/nope"], ["OPTIONS", "/nope"], ["GET", "/vms/a%2Fb/info"]]) {
          const { status, body } = await sbx.api(method, path);
          assertEquals([status, body.code], [404, "route.not_found"], `${method} ${path}`);
        }
        for (
          const [method, path, allow] of [
            ["GET", "/vms/create", "POST, OPTIONS"],
            ["POST", "/vms/list", "GET, HEAD, OPTIONS"],
            ["PUT", "/run", "POST, OPTIONS"],
            ["DELETE", "/vms/x/files/content", "GET, POST, HEAD, OPTIONS"],
          ]
        ) {
          const refused = await sbx.fetch(path, { method });
          assertEquals(
            [refused.status, (await refused.json()).code, refused.headers.get("allow")],
            [405, "route.method_not_allowed", allow],
            `${method} ${path}`,
          );
          const options = await sbx.fetch(path, { method: "OPTIONS" });
          assertEquals([options.status, options.headers.get("allow"), await options.text()], [
            204,
            allow,
            "",
          ]);
        }
        const [head, get] = [
          await sbx.fetch("/vms/list", { method: "HEAD" }),
          await sbx.fetch("/vms/list"),
        ];
        assertEquals([head.status, await head.text(), head.headers.get("content-type")], [
          200,
          "",
          get.headers.get("content-type"),
        ]);
        await get.body?.cancel();
      },
    );

    await t.step("the API describes itself, with every route", async () => {
      const { body } = await sbx.api("GET", "/openapi.json");
      const described = Object.entries(body.paths).flatMap(([path, methods]) =>
        Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`)
      );
      const known = routeTable().map(({ method, path }) => `${method} ${path}`).filter((route) =>
        route !== "GET /openapi.json"
      );
      assertEquals(
        described.sort(),
        [...known, "GET /events", "GET /terminal/{id}", "GET /program/{id}"].sort(),
      );
      const operations = Object.values(body.paths).flatMap((methods) => Object.values(methods as object));
      const ids = operations.map(({ operationId }) => operationId);
      assertEquals([ids.length, new Set(ids).size], [described.length, described.length]);
      for (const { operationId, summary, security, responses } of operations) {
        assertEquals([typeof summary, security], ["string", [{ token: [] }]], operationId);
        assertEquals(["401", "429", "default"].filter((status) => !responses[status]), [], operationId);
      }
      assertEquals(body.components.securitySchemes.token.scheme, "bearer");
    });

    await t.step("Sigma rules are files in requests: tried, put in force, refused and removed", async () => {
      const rule = `title: Tool
logsource: {category: proxy}
detection: {sel: {c-useragent|startswith: evil}, filter: {cs-host: ok.example}, condition: sel and not filter}
level: high
`;
      const sigma = { id: "sigma.api", files: [{ path: "tool.yml", text: rule }] };
      const event = (host: string) => ({
        context: {
          common: { event_type: "http.request" },
          http: { request: { host, headers: { "user-agent": "Evil/1" } } },
        },
      });
      const events = [event("a.example"), event("ok.example")];
      const tried = await sbx.api("POST", "/detection/backtest", { sigma, events });
      assertEquals([tried.status, tried.body.total_matches, tried.body.rows[0].rule_id], [200, 1, "tool"]);
      assertEquals((await sbx.api("POST", "/detection", { sigma })).status, 200);
      const listed = async () =>
        (await sbx.api("GET", "/detection")).body.rules.filter(({ id }: { id: string }) => id === "sigma.api")
          .map(({ rules }: { rules: { id: string; severity: string }[] }) =>
            rules.map(({ id, severity }) => [id, severity])
          );
      assertEquals(await listed(), [[["tool", "high"]]]);
      const again = await sbx.api("POST", "/detection", { sigma });
      assertEquals([again.status, again.body.code], [409, "detection.conflict"]);
      const files = [{ path: "bad.yml", text: rule.replace("sel and not filter", "sel and nosel") }];
      const bad = await sbx.api("POST", "/detection/backtest", { sigma: { ...sigma, files }, events });
      assertEquals([bad.status, bad.body.code], [400, "detection.invalid"]);
      const both = await sbx.api("POST", "/detection/backtest", { sigma, pack: {}, events });
      assertEquals(both.status, 400);
      const other = await sbx.api("POST", "/detection", { sigma: { ...sigma, extra: 1 } });
      assertEquals([other.status, other.body.code], [422, "request.unknown_field"]);
      assertEquals((await sbx.api("DELETE", "/detection/sigma.api")).status < 300, true);
      assertEquals(await listed(), []);
    });

    await t.step(
      "an unsaved rule is tried, by itself and on one event; what is wrong with it is said",
      async () => {
        const rules = "/profiles/code/enforcement/rules";
        const tried = (rule: object, more = {}) =>
          sbx.api("POST", `${rules}/try`, { rule_id: "mine", rule: { action: "block", ...rule }, ...more });
        const match = 'dns.request.qname == "a" && http.request.hots == "b"';
        const { status, body } = await tried({ match });
        assertEquals(status, 200);
        assertEquals(body.effect, undefined);
        assertEquals((body.lints as RuleSaved["lints"]).map(({ code, at }) => [code, at]), [[
          "invalid",
          match.indexOf("http"),
        ]]);
        const good = { match: 'http.request.host == "b.example"' };
        assertEquals((await tried(good)).body, { lints: [] });
        const never = { match: 'http.request.host == "a" && dns.request.qname == "b"' };
        assertEquals((await tried(never)).body.lints[0].code, "never-true");
        assertEquals((await tried({ ...good, extra: 1 })).body.code, "request.unknown_field");
        assertEquals((await tried(good, { session: "nobody" })).body.code, "vm.not_found");
        const event = { common: { event_type: "http.request" }, http: { request: { host: "b.example" } } };
        const draft = { rule_id: "mine", rule: { action: "block", ...good } };
        const { body: { decision } } = await sbx.api("POST", "/profiles/code/enforcement/evaluate", {
          event,
          draft,
        });
        assertEquals([decision.decision, decision.rule.id], ["block", "mine"]);
        assertEquals((await sbx.api("GET", `${rules}/mine`)).body.code, "policy.rule.not_found");
        assertEquals((await sbx.api("GET", "/asks/nobody/rule")).body.code, "ask.not_found");
      },
    );

    await t.step("only its user can open what it keeps", async () => {
      for (const path of ["run/service.sock", "run/gateway.token", "run/service.pid"]) {
        assertEquals(((await Deno.stat(`${sbx.home}/${path}`)).mode ?? 0) & 0o077, 0, path);
      }
    });
  } finally {
    await sbx.dispose();
  }
});
