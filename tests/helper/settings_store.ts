/** Stores of settings over real files, in a folder of their own. */
import { join } from "node:path";
import { CorpStore } from "../../lib/config/corp/mod.ts";
import { loadDefinitions, SettingsStore } from "../../lib/config/settings/mod.ts";

const DEFINITIONS = await loadDefinitions({ get: () => undefined });

/** A home, and stores over its files. */
export interface SettingsHome {
  dir: string;
  settings: string;
  corp: string;
  /** @param write replaces the write to disk */
  open(write?: (path: string, text: string) => Promise<void>): Promise<SettingsStore>;
}

/** Runs a test in a new home, with optional settings.toml and corp.toml. */
export function withSettings(
  files: { settings?: string; corp?: string },
  run: (home: SettingsHome) => Promise<void>,
) {
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
            corp: new CorpStore({ dir }, { managed: corp }),
            ...(write && { write }),
          }),
      });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  };
}
