/** `sbx fleet update`: the bundle of the fleet on this machine (docs/guides/fleet.md). */
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import type { BundleStatus } from "../../../lib/fleet/bundle/mod.ts";
import { pairs } from "../output.ts";

export const FLEET_UPDATE: Command = {
  name: "fleet update",
  usage: "[--allow-downgrade] [--json]",
  summary: "install the bundle of rules that the fleet's channel has for this machine",
  notes: [
    "The service does so by itself, within an hour. What this machine's own corp.toml says holds, whatever a bundle says.",
  ],
  options: [
    { name: "allow-downgrade", about: "install an older bundle than the one in force" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 0 },
  examples: ["sbx fleet update"],
  run: update,
};

async function update(args: Arguments): Promise<number> {
  const [{ checkBundle, useNetworkOf }, { userName }] = await Promise.all([
    import("../../../lib/home/mod.ts"),
    import("../../../lib/base/user/mod.ts"),
  ]);
  const corp = await useNetworkOf(home());
  const downgrade = args.has("allow-downgrade") ? { by: userName() } : undefined;
  const status = await checkBundle({ home: home(), corp }, downgrade);
  await (args.has("json") ? printJson(status) : print(pairs(bundlePairs(status))));
  return 0;
}

const STATES: Record<BundleStatus["state"], string> = {
  installed: "installed now",
  same: "the one for this machine",
  kept: "newer than the one for this machine, which was not revoked",
  none: "no release is for this machine",
  failed: "the last check failed",
};

/** What `sbx fleet status` says of the bundle. */
export function bundlePairs(
  { channel, in_force, offered, state, place, labels, held, at, problem }: BundleStatus,
): [string, string | undefined][] {
  return [
    ["bundle", in_force === null ? "none" : `${channel} ${in_force}`],
    ["state", STATES[state]],
    ["offered", offered !== null && offered !== in_force ? offered : undefined],
    ["place in stages", `${place}${labels.length > 0 ? `, ${labels.join(" ")}` : ""}`],
    ["held by corp.toml", held.join(" ") || undefined],
    ["checked", at],
    ["problem", problem ?? undefined],
  ];
}
