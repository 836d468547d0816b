/**
 * The rules of `PATCH /settings/edit` and its neighbours over HTTP (docs/design/contracts/03-settings.md §3).
 */
import { currentArch } from "../../lib/base/arch/mod.ts";
import { assert, assertEquals } from "@std/assert";
import { Hono } from "hono";
import { join } from "node:path";
import { routeProfiles } from "../../cmd/service/routes/profiles.ts";
import { routeSettings } from "../../cmd/service/routes/settings.ts";
import { asSbxError, errorBody, statusOf } from "../../lib/base/error/mod.ts";
import { blake3 } from "../../lib/base/hash/mod.ts";
import { home as homeOf } from "../../lib/base/home/mod.ts";
import { CorpStore } from "../../lib/config/corp/mod.ts";
import { checkSetting } from "../../lib/home/value_check/mod.ts";
import type { SettingsResponse } from "../../lib/client/api/mod.ts";
import { BUILTIN_PROFILES } from "../../lib/config/profile/mod.ts";
import { loadDefinitions, SettingsStore } from "../../lib/config/settings/mod.ts";
import type { Parsed } from "../helper/json.ts";

interface Api {
  dir: string;
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: HeadersInit,
  ): Promise<{ status: number; json: Parsed }>;
  app: Hono;
}

/** The routes over a home of their own. */
function api(corpText: string, run: (api: Api) => Promise<void>) {
  return async () => {
    const dir = await Deno.makeTempDir();
    try {
      const corpFile = join(dir, "corp.toml");
      if (corpText) await Deno.writeTextFile(corpFile, corpText);
      const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
      const corp = new CorpStore(home, { managed: corpFile });
      const settings = await SettingsStore.open({
        home,
        corp,
        definitions: await loadDefinitions({ get: () => undefined }),
        check: checkSetting,
      });
      const app = new Hono();
      routeSettings(app, settings, corp);
      routeProfiles(app, home, () => Promise.resolve(3));
      app.onError((cause, context) => {
        const error = asSbxError(cause, context.req.path);
        return context.json(errorBody(error), statusOf(error.code) as 500);
      });
      const call: Api["call"] = async (method, path, body, headers) => {
        const response = await app.request(path, {
          method,
          ...(body !== undefined && {
            body: typeof body === "string" ? body : JSON.stringify(body),
            headers: { "content-type": "application/json", ...headers },
          }),
        });
        return { status: response.status, json: await response.json() };
      };
      await run({ dir, call, app });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  };
}

const patch = ({ call }: Api, body: unknown) => call("PATCH", "/settings/edit", body);

function leaf(tree: Parsed[], id: string): Parsed {
  for (const node of tree) {
    if (node.id === id) return node;
    const within = node.children && leaf(node.children, id);
    if (within) return within;
  }
}

Deno.test(
  "a change with a reserved key is refused, and nothing is written",
  api("", async (over) => {
    for (const change of ['{"__proto__": 1}', '{"appearance.font_size": 20, "\\u005f_proto__": {}}']) {
      const { status, json } = await patch(over, JSON.parse(change));
      assertEquals([status, json.code], [400, "request.invalid"]);
    }
    const { status, json } = await patch(over, { constructor: 1 });
    assertEquals([status, json.code], [400, "settings.invalid"]);
    assertEquals([...Deno.readDirSync(over.dir)].some(({ name }) => name === "settings.toml"), false);
  }),
);

const LOCKED = '[settings."appearance.theme"]\nvalue = "dark"\n';

Deno.test(
  "a batch is made whole, written once, and answered with the fresh state",
  api("", async (over) => {
    const { status, json } = await patch(over, { "ledger.on_full": "block", "vm.resources.ram_gb": 2 });
    assertEquals(status, 200);
    assertEquals(Object.keys(json), ["tree", "issues"]);
    assertEquals(leaf(json.tree, "ledger.on_full").effective_value, "block");
    assertEquals(json, (await over.call("GET", "/settings/info")).json);
    assert(
      (await Deno.readTextFile(join(over.dir, "settings.toml"))).includes(
        '[settings."vm.resources.ram_gb"]\nvalue = 2\n',
      ),
    );
  }),
);

for (
  const [name, changes, status, code, reasons] of [
    [
      "a locked setting",
      { "app.auto_update": false, "appearance.theme": "light" },
      423,
      "settings.corp_locked",
      [
        "appearance.theme: locked by corp",
      ],
    ],
    ["an unknown id", { "app.auto_update": false, "app.nothing": 1 }, 400, "settings.invalid", [
      "app.nothing: unknown setting",
    ]],
    ["an invalid value", { "app.auto_update": false, "appearance.font_size": 99 }, 400, "settings.invalid", [
      "appearance.font_size: must be between 8 and 32",
    ]],
    ["a profile's business", { "mcp.github": {}, "profiles": {} }, 400, "settings.invalid", [
      "mcp.github: belongs to profiles or corp and cannot be changed in settings",
      "profiles: belongs to profiles or corp and cannot be changed in settings",
    ]],
    [
      "networks that cannot be opened",
      {
        "network.dns_resolvers": ["not-an-ip"],
        "network.extra_ca_file": "/nope",
        "network.model_price_file": "/nope",
        "network.upstream_overrides": ["x"],
        "app.auto_update": false,
      },
      400,
      "settings.invalid",
      [
        'network.dns_resolvers: "not-an-ip" is not the address of a DNS resolver (write 192.0.2.1, ' +
        "192.0.2.1:5353 or [2001:db8::1]:5353; names are not allowed)",
        "network.extra_ca_file: there is no file /nope (name a PEM file with certificates that you may read)",
        "network.model_price_file: there is no price table at /nope (correct the path, or remove the setting to use " +
        "the built-in prices)",
        'network.upstream_overrides: "x" does not have the form name=ip:port (write "name=127.0.0.1:8443", or ' +
        '"name:443=127.0.0.1:8443" for one port)',
      ],
    ],
    ["several at once", { "appearance.theme": 1, "x": 1 }, 423, "settings.corp_locked", [
      "appearance.theme: locked by corp",
      "appearance.theme: must be text",
      "x: unknown setting",
    ]],
  ] as const
) {
  Deno.test(
    `a batch with ${name} changes nothing`,
    api(LOCKED, async (over) => {
      const before = (await over.call("GET", "/settings/info")).json;
      const answer = await patch(over, changes);
      assertEquals([answer.status, answer.json.code], [status, code]);
      assertEquals(answer.json.error.split("\n").slice(1), reasons);
      assertEquals(typeof answer.json.hint, "string");
      assertEquals((await over.call("GET", "/settings/info")).json, before);
      assertEquals(await Deno.stat(join(over.dir, "settings.toml")).catch(() => "none"), "none");
    }),
  );
}

Deno.test(
  "a value that was written by hand and cannot be used is an issue, and keeps nothing else from being changed",
  api("", async (over) => {
    const path = join(over.dir, "settings.toml");
    await Deno.writeTextFile(path, '[settings."network.extra_ca_file"]\nvalue = "/nope"\n');
    const { status, json } = await patch(over, { "app.auto_update": false });
    assertEquals([
      status,
      (json.issues as typeof SettingsResponse["_output"]["issues"]).map(({ id, severity }) => [id, severity]),
    ], [
      200,
      [["network.extra_ca_file", "error"]],
    ]);
    assert(json.issues[0].message.startsWith(`${path}:2: there is no file /nope`));
    assertEquals((await patch(over, { "network.extra_ca_file": null })).json.issues, []);
  }),
);

Deno.test(
  "bodies that are no changes",
  api("", async (over) => {
    assertEquals((await patch(over, "{")).status, 422);
    assertEquals((await patch(over, [])).status, 422);
    assertEquals((await patch(over, "null")).status, 422);
    assertEquals((await patch(over, {})).status, 200);
  }),
);

Deno.test(
  "who has the answer already is told so",
  api("", async ({ app, call }) => {
    const first = await app.request("/settings/info");
    const etag = first.headers.get("etag")!;
    await first.body?.cancel();
    assertEquals((await app.request("/settings/info", { headers: { "if-none-match": etag } })).status, 304);
    await call("PATCH", "/settings/edit", { "telemetry.enabled": true });
    const changed = await app.request("/settings/info", { headers: { "if-none-match": etag } });
    assertEquals(changed.status, 200);
    await changed.body?.cancel();
  }),
);

Deno.test(
  "the answer goes through gzip for those who take it",
  api("", async ({ app, call }) => {
    const get = (encoding: string) =>
      app.request("/settings/info", { headers: { "accept-encoding": encoding } });
    const zipped = await get("br, gzip");
    assertEquals([zipped.headers.get("content-encoding"), zipped.headers.get("vary")], [
      "gzip",
      "accept-encoding",
    ]);
    const text = await new Response(zipped.body!.pipeThrough(new DecompressionStream("gzip"))).json();
    assertEquals(text, (await call("GET", "/settings/info")).json);
    for (const encoding of ["br", "gzip;q=0", "gzip; q=0.0"]) {
      const plain = await get(encoding);
      assertEquals([encoding, plain.headers.get("content-encoding")], [encoding, null]);
      await plain.body?.cancel();
    }
  }),
);

Deno.test(
  "explain and corp info",
  api(LOCKED, async ({ call, dir }) => {
    const { json } = await call("GET", "/settings/explain/appearance.theme");
    assertEquals([json.effective_value, json.lock], ["dark", `${join(dir, "corp.toml")}:2`]);
    assertEquals((await call("GET", "/settings/explain/nope")).status, 404);
    const corp = (await call("GET", "/corp/info")).json;
    assertEquals([corp.status, corp.settings], ["ok", [{ id: "appearance.theme", locked: true }]]);
    const place = `${join(dir, "corp.toml")}:1`;
    assertEquals(corp.in_force, [{ kind: "setting", id: "appearance.theme", text: "= dark", place }]);
    assert(Date.parse(corp.since) <= Date.now());
  }),
);

Deno.test(
  "profiles: list, info, and an OBOM only after verification",
  api("", async ({ call, app, dir }) => {
    const document = JSON.stringify({ bomFormat: "CycloneDX", specVersion: "1.6" });
    const folder = join(dir, "profiles", "p");
    await Deno.mkdir(folder, { recursive: true });
    const write = (size: number, hash: string) =>
      Deno.writeTextFile(
        join(folder, "profile.toml"),
        `id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n[obom.arch.${currentArch()}]\nname = "obom.cdx.json"\n` +
          `url = "file://${
            join(dir, "o.json")
          }"\nhash = "blake3:${hash}"\nsize = ${size}\ngenerator = "g"\n` +
          `generator_version = "1"\nrootfs_hash = "blake3:${"0".repeat(64)}"\n`,
      );
    await Deno.writeTextFile(join(dir, "o.json"), document);
    await Deno.mkdir(join(dir, "profiles", "bad"));
    await Deno.writeTextFile(join(dir, "profiles", "bad", "profile.toml"), "x");

    await write(document.length, blake3(document));
    const list = (await call("GET", "/profiles/list")).json;
    const ids = list.profiles.map(({ id }: { id: string }) => id);
    assertEquals(ids, [...BUILTIN_PROFILES.keys(), "p"].sort());
    assertEquals(list.broken.map(({ id, code }: Record<string, string>) => [id, code]), [[
      "bad",
      "profile.invalid",
    ]]);

    const info = (await call("GET", "/profiles/p/info")).json;
    assertEquals([info.profile.default_rule_count, info.obom.scope, info.obom.route], [
      3,
      "base_image",
      "/profiles/p/obom",
    ]);
    const obom = await app.request("/profiles/p/obom");
    assertEquals([obom.status, await obom.text()], [200, document]);

    await write(document.length + 1, blake3(document));
    assertEquals((await call("GET", "/profiles/p/obom")).status, 412);
    await write(document.length, "f".repeat(64));
    const mismatch = await call("GET", "/profiles/p/obom");
    assertEquals([mismatch.status, mismatch.json.code], [412, "assets.mismatch"]);
    // No image is installed, whose OBOM it would be.
    assertEquals((await call("GET", "/profiles/code/obom")).json.code, "assets.missing");
    assertEquals((await call("GET", "/profiles/nope/info")).status, 404);
    assertEquals((await call("GET", "/profiles/bad/info")).status, 400);
  }),
);
