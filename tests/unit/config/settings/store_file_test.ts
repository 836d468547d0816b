/** settings.toml on disk: concurrent writers, crashes, links, broken content, limits. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError, statusOf } from "../../../../lib/base/error/mod.ts";
import { runChild } from "../../../helper/child.ts";
import { withSettings } from "../../../helper/settings_store.ts";

Deno.test(
  "a new settings.toml has mode 0600",
  withSettings({}, async ({ open, settings }) => {
    await (await open()).edit({ "app.auto_update": false });
    assertEquals((await Deno.stat(settings)).mode! & 0o777, 0o600);
  }),
);

Deno.test(
  "a failed write changes neither the file nor the settings in force",
  withSettings(
    { settings: '[settings."appearance.theme"]\nvalue = "light"\n' },
    async ({ open, settings }) => {
      const before = await Deno.readTextFile(settings);
      const store = await open(() => Promise.reject(new Deno.errors.WriteZero("injected")));
      const error = await assertRejects(() => store.edit({ "appearance.theme": "dark" }), SbxError);
      assertEquals(error.message.includes("injected"), false);
      assertEquals(await Deno.readTextFile(settings), before);
      assertEquals(store.resolved.byId.get("appearance.theme")!.effective_value, "light");
    },
  ),
);

Deno.test(
  "a crash between write and rename leaves the old file",
  withSettings(
    { settings: '[settings."appearance.theme"]\nvalue = "light"\n' },
    async ({ open, settings, dir }) => {
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
    },
  ),
);

Deno.test(
  "concurrent writers in one process lose no update",
  withSettings({}, async ({ open }) => {
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
  withSettings({}, async ({ dir, corp, open }) => {
    const script = `
      const { loadDefinitions, SettingsStore } = await import(${
      JSON.stringify(import.meta.resolve("../../../../lib/config/settings/mod.ts"))
    });
      const { CorpStore } = await import(${
      JSON.stringify(import.meta.resolve("../../../../lib/config/corp/mod.ts"))
    });
      const [dir, corp, id] = Deno.args;
      const store = await SettingsStore.open({ home: { dir }, definitions: await loadDefinitions(), corp: new CorpStore({ dir }, { managed: corp }) });
      for (let value = 1; value <= 8; value++) await store.edit({ [id]: value });
    `;
    const path = join(dir, "writer.ts");
    await Deno.writeTextFile(path, script);
    const config = new URL(import.meta.resolve("../../../../deno.json")).pathname;
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
  withSettings({}, async ({ dir, settings, open }) => {
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
  withSettings({}, async ({ settings, open }) => {
    await Deno.mkdir(settings);
    const store = await open();
    assertEquals(store.info().issues.map(({ id, severity }) => [id, severity]), [["settings.toml", "error"]]);
    const { code } = await assertRejects(() => store.edit({ "app.auto_update": false }), SbxError);
    assertEquals([code, statusOf(code)], ["settings.conflict", 409]);
  }),
);

Deno.test(
  "a broken file keeps its previous content in force, reports the line, and is not overwritten",
  withSettings(
    { settings: '[settings."appearance.theme"]\nvalue = "light"\n' },
    async ({ settings, open }) => {
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
    },
  ),
);

Deno.test(
  "Windows line ends and a byte order mark are kept",
  withSettings(
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
  withSettings({}, async ({ open, dir }) => {
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
