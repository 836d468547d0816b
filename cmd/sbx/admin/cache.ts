import type { CacheInfo, ClearedCache } from "../../../lib/client/api/mod.ts";
import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { connect } from "../connect.ts";
import { table, UTC_NOTE } from "../output.ts";

export const command: CommandGroup = {
  name: "cache",
  summary: "list and clear the downloads that VMs share",
  subcommands: [
    {
      name: "cache list",
      usage: "[--json]",
      summary: "list the artefacts of the shared cache by registry",
      notes: ["A profile names the tools whose downloads are kept in [cache].", UTC_NOTE],
      options: [JSON_OPTION],
      examples: ["sbx cache list"],
      run: list,
    },
    {
      name: "cache clear",
      usage: "[--json]",
      summary: "remove every artefact of the shared cache; running VMs go on, and download",
      options: [JSON_OPTION],
      examples: ["sbx cache clear"],
      run: clear,
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  const info = await (await connect()).json<CacheInfo>("GET", "/cache");
  if (args.has("json")) {
    await printJson(info);
    return 0;
  }
  if (info.uses.length > 0) {
    const rows = info.uses.map(({ scope, registry, artifacts, bytes, used_at }) => [
      scope,
      registry,
      `${artifacts}`,
      formatBytes(bytes),
      used_at,
    ]);
    await print(table(["SCOPE", "REGISTRY", "ARTEFACTS", "SIZE", "LAST USED"], rows));
  }
  const state = info.enabled ? "" : "; switched off by vm.cache.enabled";
  await print(`on disk: ${formatBytes(info.bytes)}, at most ${formatBytes(info.max_bytes)} a scope${state}`);
  return 0;
}

async function clear(args: Arguments): Promise<number> {
  const cleared = await (await connect()).json<ClearedCache>("DELETE", "/cache");
  if (args.has("json")) await printJson(cleared);
  else await print(`removed ${count(cleared.artifacts, "artefact")}, ${formatBytes(cleared.bytes)}`);
  return 0;
}
