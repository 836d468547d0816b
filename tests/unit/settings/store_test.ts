import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import { CorpStore } from "../../../lib/corp/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/settings/mod.ts";
import { runChild } from "../../helper/child.ts";

const DEFINITIONS = await loadDefinitions({ get: () => undefined });

interface World {
  dir: string;
  settings: string;
  corp: string;
  open(write?: (path: string, text: string) => Promise<void>): Promise<SettingsStore>;
}

/** Runs a test in a new home, with optional settings.toml and corp.toml. */
function world(files: { settings?: string; corp?: string }, run: (world: World) => Promise<void>) {
  return async () => {
    const dir = await Deno.makeTempDir();
    const corp = join(dir, "corp.toml");
    const settings = join(dir, "settings.toml");
    try {
      if (files.settings !== undefined) await Deno.writeTextFile(settings, files.settings);
      if (files.corp !== undefined) await Deno.writeTextFile(corp, files.corp);
      await run({
        dir,
        settings,
        corp,
        open: (write) =>
          SettingsStore.open({
            home: { dir },
            definitions: DEFINITIONS,
            corp: new CorpStore({ dir }, corp),
            ...(write && { write }),
          }),
      });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  };
}

async function refusal(store: SettingsStore, changes: Record<string, unknown>) {
  const { code, message } = await assertRejects(() => store.edit(changes), SbxError);
  return { code, reasons: message.split("\n").slice(1) };
}

Deno.test(
  "an edit is written, resolved and answered; other text is kept",
  world(
    { settings: '# mine\n[settings."app.auto_update"]\nvalue = false # no\n' },
    async ({ open, settings }) => {
      const store = await open();
      const answer = await store.edit({ "appearance.theme": "dark" });
      assert(JSON.stringify(answer.tree).includes('"effective_value":"dark"'));
      const text = await Deno.readTextFile(settings);
      assert(
        text.startsWith(
          '# mine\n[settings."app.auto_update"]\nvalue = false # no\n\n[settings."appearance.theme"]\n',
        ),
      );
      const again = (await open()).resolved.byId.get("appearance.theme")!;
      assertEquals([again.effective_value, again.source], ["dark", "user"]);
      assert(!Number.isNaN(Date.parse(again.modified!)));
    },
  ),
);

Deno.test(
  "a new settings.toml has mode 0600",
  world({}, async ({ open, settings }) => {
    await (await open()).edit({ "app.auto_update": false });
    assertEquals((await Deno.stat(settings)).mode! & 0o777, 0o600);
  }),
);

Deno.test(
  "values of every type survive a round trip through the file",
  world({}, async ({ open }) => {
    const changes = {
      "appearance.theme": "light",
      "appearance.font_size": 20,
      "app.auto_update": false,
      "telemetry.password": 'p"\\\t',
      "telemetry.api_key": "k",
      "vm.environment.shell.bashrc": { path: "/root/.bashrc", content: 'a="""\n\\\r\n\x7f' },
      "vm.environment.proxy.no_proxy": ["a", "b\nc"],
      "vm.environment.dev.ports": [1, 65535],
      "telemetry.latency_buckets": [0, 1e-7, 1e21],
    };
    await (await open()).edit(changes);
    const { byId, issues } = (await open()).resolved;
    assertEquals(issues, []);
    for (const [id, value] of Object.entries(changes)) assertEquals(byId.get(id)!.effective_value, value);
  }),
);

Deno.test(
  "null removes an override",
  world({ settings: '# a\n[settings."app.auto_update"]\nvalue = false\n' }, async ({ open, settings }) => {
    const store = await open();
    await store.edit({ "app.auto_update": null, "appearance.theme": null });
    assertEquals(store.resolved.byId.get("app.auto_update")!.source, "default");
    assertEquals(await Deno.readTextFile(settings), "# a\n");
  }),
);

Deno.test(
  "a batch with any problem writes nothing and lists every problem",
  world({}, async ({ open, dir }) => {
    const store = await open();
    const { code, reasons } = await refusal(store, {
      "app.auto_update": false,
      "app.auto_updat": true,
      "appearance.font_size": 7,
      "appearance.theme": 3,
      "app.check_update": true,
      "vm.resources": {},
      "mcp.github": {},
      ["__proto__"]: 1,
      ["constructor"]: 1,
    });
    assertEquals([code, statusOf(code)], ["settings.invalid", 400]);
    assertEquals(reasons, [
      'app.auto_updat: unknown setting; did you mean "app.auto_update"?',
      "appearance.font_size: must be between 8 and 32",
      "appearance.theme: must be text",
      "app.check_update: is an action and has no value",
      "vm.resources: is a group and has no value",
      "mcp.github: belongs to profiles or corp and cannot be changed in settings",
      "__proto__: unknown setting",
      "constructor: unknown setting",
    ]);
    assertEquals([...Deno.readDirSync(dir)].map(({ name }) => name), ["settings.lock"]);
    assertEquals(store.resolved.byId.get("app.auto_update")!.effective_value, true);
  }),
);

Deno.test(
  "a corp lock rejects the whole batch with 423, even to remove an override",
  world({ corp: '[settings."appearance.theme"]\nvalue = "dark"\n' }, async ({ open }) => {
    const store = await open();
    for (const value of ["light", "dark", null]) {
      const { code, reasons } = await refusal(store, { "app.auto_update": false, "appearance.theme": value });
      assertEquals([code, statusOf(code)], ["settings.corp_locked", 423]);
      assertEquals(reasons, ["appearance.theme: locked by corp"]);
    }
    assertEquals(store.resolved.byId.get("app.auto_update")!.effective_value, true);
  }),
);

Deno.test(
  "a new corp lock applies without a reload",
  world({}, async ({ open, corp }) => {
    const store = await open();
    await Deno.writeTextFile(corp, '[settings."appearance.theme"]\nvalue = "dark"\n');
    assertEquals((await refusal(store, { "appearance.theme": "light" })).code, "settings.corp_locked");
  }),
);

Deno.test(
  "a failed write changes neither the file nor the settings in force",
  world({ settings: '[settings."appearance.theme"]\nvalue = "light"\n' }, async ({ open, settings }) => {
    const before = await Deno.readTextFile(settings);
    const store = await open(() => Promise.reject(new Deno.errors.WriteZero("injected")));
    const error = await assertRejects(() => store.edit({ "appearance.theme": "dark" }), SbxError);
    assertEquals(error.message.includes("injected"), false);
    assertEquals(await Deno.readTextFile(settings), before);
    assertEquals(store.resolved.byId.get("appearance.theme")!.effective_value, "light");
  }),
);

Deno.test(
  "a crash between write and rename leaves the old file",
  world({ settings: '[settings."appearance.theme"]\nvalue = "light"\n' }, async ({ open, settings, dir }) => {
    // Such a crash leaves a temporary file, complete or not.
    await Deno.writeTextFile(join(dir, ".crashed.tmp"), '[settings."appearance.theme"]\nval');
    assertEquals((await open()).value("appearance.theme"), "light");
    const store = await open(async (_, text) => {
      await Deno.writeTextFile(join(dir, ".second.tmp"), text);
      throw new Error("killed");
    });
    await assertRejects(() => store.edit({ "appearance.theme": "dark" }), SbxError);
    assertEquals((await open()).value("appearance.theme"), "light");
    assertEquals(await Deno.readTextFile(settings), '[settings."appearance.theme"]\nvalue = "light"\n');
  }),
);

Deno.test(
  "concurrent writers in one process lose no update",
  world({}, async ({ open }) => {
    const stores = await Promise.all([open(), open(), open()]);
    const ids = ["vm.resources.cpu_count", "vm.resources.ram_gb", "vm.snapshots.auto_max"];
    await Promise.all(
      Array.from(
        { length: 8 },
        (_, round) => stores.map((store, i) => store.edit({ [ids[i]]: 1 + round % 8 })),
      ).flat(),
    );
    const last = await open();
    assertEquals(ids.map((id) => last.value(id)), [8, 8, 8]);
    assertEquals(last.resolved.issues, []);
  }),
);

Deno.test(
  "concurrent writers in separate processes lose no update",
  world({}, async ({ dir, corp, open }) => {
    const script = `
      const { loadDefinitions, SettingsStore } = await import(${
      JSON.stringify(import.meta.resolve("../../../lib/settings/mod.ts"))
    });
      const { CorpStore } = await import(${JSON.stringify(import.meta.resolve("../../../lib/corp/mod.ts"))});
      const [dir, corp, id] = Deno.args;
      const store = await SettingsStore.open({ home: { dir }, definitions: await loadDefinitions(), corp: new CorpStore({ dir }, corp) });
      for (let value = 1; value <= 8; value++) await store.edit({ [id]: value });
    `;
    const path = join(dir, "writer.ts");
    await Deno.writeTextFile(path, script);
    const config = new URL(import.meta.resolve("../../../deno.json")).pathname;
    const ids = ["vm.resources.cpu_count", "vm.resources.ram_gb"];
    const results = await Promise.all(ids.map((id) =>
      runChild(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "--config", config, path, dir, corp, id],
      })
    ));
    assertEquals(
      results.map(({ code, stderr }) => [code, new TextDecoder().decode(stderr).includes("rror")]),
      [
        [0, false],
        [0, false],
      ],
    );
    const { byId } = (await open()).resolved;
    assertEquals(ids.map((id) => byId.get(id)!.effective_value), [8, 8]);
  }),
);

Deno.test(
  "a symbolic link is kept, and its target is edited",
  world({}, async ({ dir, settings, open }) => {
    await Deno.mkdir(join(dir, "dotfiles"));
    await Deno.writeTextFile(join(dir, "dotfiles", "s.toml"), "# kept\n");
    await Deno.symlink(join("dotfiles", "s.toml"), settings);
    await (await open()).edit({ "app.auto_update": false });
    assert((await Deno.lstat(settings)).isSymlink);
    assert((await Deno.readTextFile(join(dir, "dotfiles", "s.toml"))).startsWith("# kept\n\n[settings."));
  }),
);

Deno.test(
  "a folder in place of settings.toml is an issue, and edits are rejected",
  world({}, async ({ settings, open }) => {
    await Deno.mkdir(settings);
    const store = await open();
    assertEquals(store.info().issues.map(({ id, severity }) => [id, severity]), [["settings.toml", "error"]]);
    const { code } = await assertRejects(() => store.edit({ "app.auto_update": false }), SbxError);
    assertEquals([code, statusOf(code)], ["settings.conflict", 409]);
  }),
);

Deno.test(
  "a broken file keeps its previous content in force, reports the line, and is not overwritten",
  world({ settings: '[settings."appearance.theme"]\nvalue = "light"\n' }, async ({ settings, open }) => {
    const store = await open();
    const broken = '[settings."appearance.theme"]\nvalue = "dark\n';
    await Deno.writeTextFile(settings, broken);
    await store.reload();
    assertEquals(store.value("appearance.theme"), "light");
    assert(store.info().issues[0].message.startsWith(`${settings}:2:`));
    const { code, message } = await assertRejects(() => store.edit({ "app.auto_update": false }), SbxError);
    assertEquals(code, "settings.conflict");
    assert(message.includes(`${settings}:2:`));
    assertEquals(await Deno.readTextFile(settings), broken);
  }),
);

Deno.test(
  "Windows line ends and a byte order mark are kept",
  world(
    { settings: '\ufeff[settings."appearance.theme"]\r\nvalue = "light"\r\n' },
    async ({ settings, open }) => {
      const store = await open();
      assertEquals(store.value("appearance.theme"), "light");
      await store.edit({ "vm.environment.shell.bashrc": { path: "/root/.bashrc", content: "a\nb\n" } });
      const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(await Deno.readFile(settings));
      assert(text.startsWith('\ufeff[settings."appearance.theme"]\r\nvalue = "light"\r\n\r\n'));
      assertEquals(text.replaceAll("\r\n", "").includes("\n"), false);
      assertEquals((await open()).value("vm.environment.shell.bashrc"), {
        path: "/root/.bashrc",
        content: "a\nb\n",
      });
    },
  ),
);

Deno.test(
  "an edit that would exceed the file size limit is rejected",
  world({}, async ({ open, dir }) => {
    const store = await open();
    const content = "x".repeat(200 * 1024);
    const file = (path: string) => ({ path, content });
    const long = Array.from({ length: 1024 }, () => "y".repeat(1000));
    const { code } = await assertRejects(() =>
      store.edit({
        "vm.environment.shell.bashrc": file("/root/.bashrc"),
        "vm.environment.proxy.no_proxy": long,
      }), SbxError);
    assertEquals(code, "settings.invalid");
    assertEquals([...Deno.readDirSync(dir)].map(({ name }) => name), ["settings.lock"]);
  }),
);

Deno.test(
  "the answer is encoded once per change",
  world({}, async ({ open }) => {
    const store = await open();
    const first = store.infoBytes();
    assertEquals(JSON.parse(new TextDecoder().decode(first.json)), JSON.parse(JSON.stringify(store.info())));
    assertEquals(store.infoBytes() === first, true);
    await store.edit({ "app.auto_update": false });
    assert(store.infoBytes().etag !== first.etag);
    await store.edit({ "app.auto_update": null });
    assertEquals(store.infoBytes().etag, first.etag);
  }),
);

Deno.test(
  "a watch reports edits by hand, of corp.toml and through the store",
  world({}, async ({ settings, corp, open }) => {
    const store = await open();
    let wake = () => {};
    let seen = 0;
    const watch = store.watch(() => {
      seen++;
      wake();
    });
    const change = async (make: () => Promise<unknown>, isDone: () => boolean) => {
      const before = seen;
      await make();
      while (!isDone()) await new Promise<void>((resolve) => wake = resolve);
      assert(seen > before);
    };
    try {
      await change(
        () => Deno.writeTextFile(settings, '[settings."appearance.theme"]\nvalue = "light"\n'),
        () => store.value("appearance.theme") === "light",
      );
      await change(
        () => Deno.writeTextFile(corp, '[settings."appearance.theme"]\nvalue = "dark"\n'),
        () => store.value("appearance.theme") === "dark",
      );
      await change(() => Deno.remove(corp), () => store.value("appearance.theme") === "light");
      await change(() => store.edit({ "appearance.theme": "system" }), () => true);
    } finally {
      watch.close();
    }
  }),
);
