import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError, statusOf } from "../../../../lib/base/error/mod.ts";
import type { SettingsStore } from "../../../../lib/config/settings/mod.ts";
import { withSettings } from "../../../helper/settings_store.ts";

async function refusal(store: SettingsStore, changes: Record<string, unknown>) {
  const { code, message } = await assertRejects(() => store.edit(changes), SbxError);
  return { code, reasons: message.split("\n").slice(1) };
}

Deno.test(
  "an edit is written, resolved and answered; other text is kept",
  withSettings(
    { settings: '# mine\n[settings."app.auto_update"]\nvalue = false # no\n' },
    async ({ open, settings }) => {
      const store = await open();
      const answer = await store.edit({ "ledger.on_full": "block" });
      assert(JSON.stringify(answer.tree).includes('"effective_value":"block"'));
      const text = await Deno.readTextFile(settings);
      assert(
        text.startsWith(
          '# mine\n[settings."app.auto_update"]\nvalue = false # no\n\n[settings."ledger.on_full"]\n',
        ),
      );
      const again = (await open()).resolved.byId.get("ledger.on_full")!;
      assertEquals([again.effective_value, again.source], ["block", "user"]);
      assert(!Number.isNaN(Date.parse(again.modified!)));
    },
  ),
);

Deno.test(
  "values of every type survive a round trip through the file",
  withSettings({}, async ({ open }) => {
    const changes = {
      "appearance.theme": "light",
      "appearance.font_size": 20,
      "app.auto_update": false,
      "repository.git.identity.author_name": 'p"\\\t',
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
  withSettings(
    { settings: '# a\n[settings."app.auto_update"]\nvalue = false\n' },
    async ({ open, settings }) => {
      const store = await open();
      await store.edit({ "app.auto_update": null, "appearance.theme": null });
      assertEquals(store.resolved.byId.get("app.auto_update")!.source, "default");
      assertEquals(await Deno.readTextFile(settings), "# a\n");
    },
  ),
);

Deno.test(
  "a batch with any problem writes nothing and lists every problem",
  withSettings({}, async ({ open, dir }) => {
    const store = await open();
    const { code, reasons } = await refusal(store, {
      "app.auto_update": false,
      "telemetry.enable": true,
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
      'telemetry.enable: unknown setting; did you mean "telemetry.enabled"?',
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
  withSettings({ corp: '[settings."appearance.theme"]\nvalue = "dark"\n' }, async ({ open }) => {
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
  withSettings({}, async ({ open, corp }) => {
    const store = await open();
    await Deno.writeTextFile(corp, '[settings."appearance.theme"]\nvalue = "dark"\n');
    assertEquals((await refusal(store, { "appearance.theme": "light" })).code, "settings.corp_locked");
  }),
);

Deno.test(
  "the answer is encoded once per change",
  withSettings({}, async ({ open }) => {
    const store = await open();
    const first = store.infoBytes();
    assertEquals(JSON.parse(new TextDecoder().decode(first.json)), JSON.parse(JSON.stringify(store.info())));
    assertEquals(store.infoBytes() === first, true);
    await store.edit({ "telemetry.enabled": true });
    assert(store.infoBytes().etag !== first.etag);
    await store.edit({ "telemetry.enabled": null });
    assertEquals(store.infoBytes().etag, first.etag);
  }),
);

Deno.test(
  "a watch reports edits by hand, of corp.toml and through the store",
  withSettings({}, async ({ settings, corp, open }) => {
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
