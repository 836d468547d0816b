/** `sbx fleet simulate`: a bundle, or candidate rules and packs, over the past of a fleet before anything is rolled out. */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import {
  type Arguments,
  type Command,
  daysOption,
  JSON_OPTION,
  sinceOf,
} from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import type { DetectionIr } from "../../../lib/detection/mod.ts";
import type { Rule } from "../../../lib/policy/mod.ts";
import { formatReport, readCandidates } from "../rules/lab_report.ts";
import { usageError } from "../usage.ts";

const DAYS = 30;

export const SIMULATE: Command = {
  name: "fleet simulate",
  usage: "[BUNDLE] --over RECORDS [OPTIONS]",
  summary: "show what new rules and packs would have blocked, asked and released over a fleet's past",
  notes: [
    "BUNDLE is the index of a channel, or the folder of a published release; its signature is verified with the keys of this machine.",
    "The exit code is 1 if an allowed event would be blocked or asked. Bodies that stayed on a machine are not seen by rules.",
  ],
  options: [
    { name: "over", value: "RECORDS", about: "duckdb:// or chdb:// and the store of a fleet" },
    { name: "channel", value: "ID", about: "channel of the bundle; default that of corp.toml, or fleet" },
    {
      name: "release",
      value: "VERSION",
      about: "release of the bundle; default the best that is not revoked",
    },
    { name: "trust", value: "FILE", about: "public keys that the bundle must be signed by" },
    { name: "rules", value: "FILE", about: "profile rules to evaluate" },
    { name: "corp", value: "FILE", about: "corp rules to evaluate" },
    { name: "pack", value: "FILE", many: true, about: "a pack to evaluate" },
    daysOption(DAYS),
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  examples: [
    "sbx fleet simulate https://releases.example.com/channels.json --over duckdb:///srv/fleet",
    "sbx fleet simulate --over duckdb:///srv/fleet --corp rules.toml --days 30",
  ],
  run: simulate,
};

/** Rules and packs to simulate. */
interface Candidates {
  rules?: Rule[];
  packs: DetectionIr[];
}

async function simulate(args: Arguments): Promise<number> {
  const over = args.text("over");
  if (over === undefined) throw usageError(SIMULATE, "missing option --over RECORDS");
  const [bundle] = args.words;
  const { rules, packs } = bundle === undefined ? await ofFiles(args) : await ofBundle(bundle, args);
  const [{ runLab }, { eventsOf, openOver, sessionsSince }] = await Promise.all([
    import("../../../lib/lab/mod.ts"),
    import("../../../lib/fleet/table/mod.ts"),
  ]);
  await using opened = await openOver(over);
  const { engine, table } = opened;
  if (!table) {
    throw new SbxError("fleet.over.invalid", `${over} has ledgers only`, {
      hint: "sbx lab SESSION --pack FILE replays the detections of sessions",
    });
  }
  const since = sinceOf(args, DAYS);
  const sessions = await sessionsSince({ engine, table }, since);
  const report = await runLab({
    sessions: sessions.map((session) => ({
      id: session.session_id,
      events: eventsOf({ engine, table }, session, since),
    })),
    packs,
    ...(rules && { rules }),
    baseline: { packs: [] },
    onSession: (id) => note(`reading ${id}`),
  });
  await (args.has("json") ? printJson(report) : print(formatReport(report)));
  return report.ok ? 0 : 1;
}

async function ofFiles(args: Arguments): Promise<Candidates> {
  const [rules, corp, packs] = [args.text("rules"), args.text("corp"), args.list("pack")];
  if (!rules && !corp && packs.length === 0) {
    throw usageError(SIMULATE, "missing word: give a bundle, --rules, --corp or --pack");
  }
  const { loadPack } = await import("../../../lib/detection/active/mod.ts");
  return {
    packs: await Promise.all(packs.map(async (path) => (await loadPack(path)).ir)),
    ...((rules || corp) && { rules: await readCandidates(rules, corp) }),
  };
}

/** Rules and packs of a signed bundle, merged with this machine's own corp.toml. */
async function ofBundle(place: string, args: Arguments): Promise<Candidates> {
  if (["rules", "corp", "pack"].some((name) => args.has(name))) {
    throw usageError(SIMULATE, "a bundle has its own rules and packs: leave out --rules, --corp and --pack");
  }
  const [{ corpPlaces, findCorpPlace, loadCorp }, bundles, releases, { fetchDocument }, service] =
    await Promise.all([
      import("../../../lib/config/corp/mod.ts"),
      import("../../../lib/fleet/bundle/mod.ts"),
      import("../../../lib/release/mod.ts"),
      import("../../../lib/publish/update/mod.ts"),
      import("../../../lib/home/mod.ts"),
    ]);
  await service.useNetworkOf(home());
  const { path: ownPath, isRequired } = await findCorpPlace(corpPlaces());
  const own = await loadCorp(ownPath).catch((error) => {
    if (error instanceof SbxError && error.code === "corp.not_found" && !isRequired) return undefined;
    throw error;
  });
  const trust = args.text("trust");
  const keys = await releases.readReleaseKeys(
    trust === undefined
      ? await releases.findKeyFiles(own && { release: own.file.release, path: own.path })
      : { trust },
  );
  const index = URL.canParse(place) ? place : pathToFileURL(join(resolve(place), releases.INDEX_NAME)).href;
  const version = args.text("release");
  const { record, files, entry } = await bundles.verifyBundle({
    index: releases.parseIndexUrl(index),
    channel: args.text("channel") ?? own?.file.fleet.bundles_channel ?? "fleet",
    keys,
    fetch: fetchDocument,
    ...(version !== undefined && { version }),
  });
  note(`bundle ${record.version} of ${record.status} standing, verified`);
  const theirs = await bundles.parseCorp(files, entry.name);
  const joined = own ? bundles.joinCorp(own, theirs).text : files[bundles.CORP_NAME];
  const dir = await Deno.makeTempDir({ prefix: "sbx-bundle-" });
  try {
    await bundles.writeFiles(dir, { ...files, [bundles.CORP_NAME]: joined });
    const path = join(dir, bundles.CORP_NAME);
    const { rules, packs } = await service.corpLayer({
      state: { status: "ok", config: await loadCorp(path) },
      path,
    });
    return { rules, packs };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}
