/** `sbx purge --home`: everything that sbx keeps for this user in one home, after a list with sizes. */
import { join, relative } from "node:path";
import type { DiskUse } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as findHome, removeFolder } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { stopDaemon } from "../../../lib/client/mod.ts";
import { isYes } from "../confirm.ts";
import { connect } from "../connect.ts";
import { table } from "../output.ts";

/**
 * Removes a home: VMs, deleted VMs, images, records, credentials and settings, and the file
 * that starts its service at login.
 *
 * @returns the exit code
 * @throws {SbxError} `home.not_found`; `home.not_own`: the folder has more than a home; `home.kept`: corp
 * keeps a record, or its collectors lack one
 */
export async function purgeHome({ yes, json }: { yes: boolean; json: boolean }): Promise<number> {
  const place = findHome();
  await requireHome(place.dir);
  const client = await connect();
  const use = await client.json<DiskUse>("GET", "/disk");
  requireNoneKept(use);
  if (!json) {
    const kinds = use.kinds.filter(({ bytes }) => bytes > 0);
    const rows = kinds.map(({ kind, bytes, entries }) => [
      kind.replaceAll("_", " "),
      formatBytes(bytes),
      entries.slice(0, 3).map(({ name }) => name).join(", ") +
      (entries.length > 3 ? ` and ${entries.length - 3} more` : ""),
    ]);
    await print(table(["FILES", "SIZE", "NAMES"], rows));
  }
  if (!yes && !confirm(place.dir, use.bytes)) return 1;
  await client.json("POST", "/purge", { json: { all: true, force: true } });
  await client.json("POST", "/purge", { json: { deleted: true } });
  // VMs recorded until now, and corp may hold a record since.
  requireNoneKept(await settled(client));
  client.http?.close();
  for (const daemon of ["gateway", "service"] as const) await stopDaemon(place, daemon);
  const { removeLoginStart } = await import("../../../lib/service/mod.ts");
  await removeLoginStart(place);
  // A link to another disk has its content there.
  for (const dir of [place.sessionsDir, `${place.dir}/deleted`]) {
    const target = await Deno.realPath(dir).catch(() => undefined);
    if (target !== undefined && target !== dir) await removeFolder(target);
  }
  await removeFolder(place.runDir);
  await removeFolder(place.dir);
  if (json) await printJson({ home: place.dir, bytes: use.bytes });
  else await print(`removed ${place.dir}, ${formatBytes(use.bytes)}`);
  const others = [place.assetsDir, place.templatesDir, place.profilesDir].filter((dir) =>
    !dir.startsWith(`${place.dir}/`)
  );
  if (others.length > 0) note(`sbx: kept ${others.join(", ")}, which other homes may use`);
  return 0;
}

/** Files of which every home has one. */
const MARKS = ["main.db", "attest", "settings.toml"];

/** Checks a folder before a service makes a home of it: SBX_HOME may name any other by mistake. */
async function requireHome(dir: string): Promise<void> {
  const exists = (path: string) => Deno.stat(path).then(() => true, () => false);
  const marks = await Promise.all(MARKS.map((name) => exists(join(dir, name))));
  if (!marks.includes(true)) {
    throw new SbxError("home.not_found", `there is no home at ${dir}`, {
      hint: "SBX_HOME names another one",
    });
  }
  const own = await Deno.realPath(Deno.env.get("HOME") || "/").catch(() => "/");
  const inside = relative(await Deno.realPath(dir), own);
  if (inside === ".." || inside.startsWith("../")) return;
  throw new SbxError(
    "home.not_own",
    `${dir} holds ${own}, and not a home of sbx alone: nothing was removed`,
    {
      hint: "remove the files of sbx there yourself; sbx disk lists them",
    },
  );
}

function requireNoneKept({ home, kept_records }: DiskUse): void {
  const [kept] = kept_records;
  if (!kept) return;
  throw new SbxError(
    "home.kept",
    `${count(kept_records.length, "record")} of ${home} cannot be removed: ${kept.why}`,
    { hint: "sbx disk --json lists them in kept_records; ask your administrator" },
  );
}

/** Looks, `ms` apart, for the last events to reach corp's collectors. */
const LOOKS = 10, LOOK_MS = 1000;

/** The disk space once no record is kept, or as it is after some time. */
async function settled(client: Awaited<ReturnType<typeof connect>>): Promise<DiskUse> {
  let use = await client.json<DiskUse>("GET", "/disk");
  for (let look = 1; look < LOOKS && use.kept_records.length > 0; look++) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    use = await client.json<DiskUse>("GET", "/disk");
  }
  return use;
}

function confirm(dir: string, bytes: number): boolean {
  if (Deno.stdin.isTerminal()) {
    return isYes(`remove ${dir} with all of this (${formatBytes(bytes)}) for good?`);
  }
  throw new SbxError(
    "usage.invalid",
    `sbx purge --home removes ${dir} for good and needs a confirmation, but standard input is not a terminal`,
    { hint: "confirm with sbx purge --home --yes" },
  );
}
