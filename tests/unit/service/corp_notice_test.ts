/** What listeners of `/events` hear of corp.toml. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { home as findHome } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { Service } from "../../../lib/service/mod.ts";
import { checkCorp } from "../../../lib/home/value_check/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";

Deno.test("listeners hear that corp.toml came, changed, failed and went", async () => {
  const dir = await Deno.makeTempDir();
  const env = { SBX_HOME: dir };
  const home = findHome({ get: (name) => (env as Record<string, string>)[name] });
  const path = join(dir, "corp.toml");
  const corp = new CorpStore(home, { managed: path }, checkCorp);
  const definitions = await loadDefinitions({ get: () => undefined });
  const service = new Service({
    home,
    settings: await SettingsStore.open({ home, corp, definitions }),
    corp,
  });
  await service.load();
  const heard: { status: string; summary: string }[] = [];
  let next = Promise.withResolvers<void>();
  service.notices.listen((notice) => {
    if (notice.type !== "corp-changed") return;
    heard.push(notice.payload);
    next.resolve();
  });
  /** Changes the file as soon as the change before was heard of, while it is still being put in force. */
  const hears = async (status: string, change: () => Promise<void>) => {
    await change();
    while (heard.at(-1)?.status !== status) {
      await next.promise;
      next = Promise.withResolvers();
    }
  };
  service.watch();
  try {
    const write = (text: string) => Deno.writeTextFile(path, text);
    await hears("ok", () => write('[settings."app.auto_update"]\nvalue = true\n'));
    await hears("last_good", () => write("broken"));
    assertStringIncludes(heard.at(-1)!.summary, "IS BROKEN");
    await hears("ok", () => write('[settings."app.auto_update"]\nvalue = false\n'));
    assertEquals(corp.state.status === "ok" && corp.state.config.document.text.includes("false"), true);
    await hears("absent", () => Deno.remove(path));
  } finally {
    await service.close();
    await Deno.remove(dir, { recursive: true });
  }
});
