import { fileURLToPath, pathToFileURL } from "node:url";
import {
  type Arguments,
  type Command,
  type CommandGroup,
  daysOption,
  JSON_OPTION,
  sinceOf,
} from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { shownAddress } from "../../../lib/base/url/mod.ts";
import { deviceName } from "../../../lib/base/user/mod.ts";
import { pairs, table, usageError } from "../output.ts";
import { CREDENTIAL, readSecret, recordsAuthorization } from "../rules/secret.ts";
import type { BundleStatus } from "../../../lib/fleet/bundle/mod.ts";
import { join, resolve } from "node:path";
import type { Compiled } from "../../../lib/detection/mod.ts";
import type { RuleLayers } from "../../../lib/policy/mod.ts";
import { formatReport, readCandidates } from "../rules/lab.ts";

const DAYS = 30;

const SIMULATE: Command = {
  name: "fleet simulate",
  usage: "[BUNDLE] --over RECORDS [OPTIONS]",
  summary:
    "show the events of a fleet's past that new rules and packs would have blocked, asked and released",
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
  completes: ["files"],
  examples: [
    "sbx fleet simulate https://releases.example.com/channels.json --over duckdb:///srv/fleet",
    "sbx fleet simulate --over duckdb:///srv/fleet --corp rules.toml --days 30",
  ],
  run: simulate,
};

/** Rules and packs to simulate. */
interface Candidates {
  rules?: RuleLayers;
  packs: Compiled[];
}

async function simulate(args: Arguments): Promise<number> {
  const over = args.text("over");
  if (over === undefined) throw usageError(SIMULATE, "missing option --over RECORDS");
  const [bundle] = args.words;
  const { rules, packs } = bundle === undefined ? await ofFiles(args) : await ofBundle(bundle, args);
  const [{ runLab }, { eventsOf, openRecords, sessionsSince }] = await Promise.all([
    import("../../../lib/lab/mod.ts"),
    import("../../../lib/fleet/table/mod.ts"),
  ]);
  await using opened = await openRecords(over);
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
    return { rules: { corp: { rules }, profile: { rules: [] } }, packs };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

// `sbx fleet update`: the bundle of the fleet on this machine (docs/guides/fleet.md).

const FLEET_UPDATE: Command = {
  name: "fleet update",
  usage: "[--allow-downgrade] [--json]",
  summary: "install the bundle of rules that the fleet's channel has for this machine",
  notes: [
    "The exit code is 1 if the active bundle is revoked and the channel has no other.",
    "The service does so automatically, within an hour. This machine's own corp.toml overrides a bundle.",
  ],
  options: [
    { name: "allow-downgrade", about: "install an older bundle than the active one" },
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
  return isBad(status) ? 1 : 0;
}

/** A bundle that a person has to look after. */
function isBad({ state }: Pick<BundleStatus, "state">): boolean {
  return state === "failed" || state === "revoked";
}

const STATES: Record<BundleStatus["state"], string> = {
  installed: "installed now",
  same: "the one for this machine",
  kept: "newer than the one for this machine, which was not revoked",
  revoked: "revoked, and no other release is for this machine",
  none: "no release is for this machine",
  failed: "the last check failed",
};

/** The bundle's part of `sbx fleet status`. */
function bundlePairs(
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

const ASK: Command = {
  name: "fleet ask",
  usage: "[QUESTION [VALUE] --over RECORDS [--credential REF]] [--days N] [--json]",
  summary: "answer a prepared question about a fleet; without one, list the questions",
  options: [
    {
      name: "over",
      value: "RECORDS",
      about: "duckdb:// or chdb:// and the store of a fleet, or clickhouse://HOST",
    },
    ...CREDENTIAL,
    daysOption(),
    JSON_OPTION,
  ],
  words: { min: 0, max: 2 },
  completes: ["questions", []],
  examples: ["sbx fleet ask", "sbx fleet ask reached-host evil.example.com --over duckdb:///srv/fleet"],
  run: ask,
};

export const command: CommandGroup = {
  name: "fleet",
  summary: "send this machine's records to the company's collector",
  subcommands: [
    {
      name: "fleet status",
      usage: "[--json]",
      summary: "show the records that the collector has of this machine, and the active bundle",
      notes: [
        "The exit code is 1 while records are missing at the collector, or the last check of the bundle failed.",
      ],
      options: [JSON_OPTION],
      examples: ["sbx fleet status"],
      run: status,
    },
    {
      name: "fleet enrol",
      usage: "[--name NAME] [--at URL] [--json]",
      summary: "introduce this machine to the collector, with a one-time token from standard input",
      notes: ["Where corp.toml names a stream or a database, --at names the receiver that reads from it."],
      options: [
        { name: "at", value: "URL", about: "the receiver; default the collector of corp.toml" },
        { name: "name", value: "NAME", about: "name of this machine; default its host name" },
        JSON_OPTION,
      ],
      examples: ["sbx fleet enrol < token.txt"],
      run: enrol,
    },
    FLEET_UPDATE,
    ASK,
    SIMULATE,
  ],
};

async function status(args: Arguments): Promise<number> {
  const [{ readStatus }, { readBundleStatus }] = await Promise.all([
    import("../../../lib/fleet/machine/mod.ts"),
    import("../../../lib/fleet/bundle/mod.ts"),
  ]);
  const now = await readStatus(home());
  const bundle = await readBundleStatus(home());
  if (args.has("json")) {
    await printJson({ ...now ?? { schema: "sbx.fleet-status.v1", target: null }, ...(bundle && { bundle }) });
  } else if (!now) {
    await print("nothing is sent from here: corp.toml names no collector, or the service has not run since");
  } else {
    const { all, behind, forked, refused, lost } = now.sessions;
    await print(pairs([
      ["collector", now.target],
      ["machine", now.machine_id],
      ["last complete", now.last_good_at ?? "never"],
      ["sessions", `${all}, ${behind} behind`],
      [
        "sent",
        `${count(now.shipped.events, "event")}, ${
          count(now.shipped.segments, "segment")
        }, ${now.shipped.bytes} bytes`,
      ],
      ["differ from the collector", forked.join(" ") || undefined],
      ["refused", refused.join(" ") || undefined],
      ["lost", lost ? String(lost) : undefined],
      [
        "log of the store",
        now.witness &&
        (now.witness.problem ?? `${count(now.witness.size, "entry", "entries")}, seen ${now.witness.at}`),
      ],
      ["error", now.error ?? undefined],
    ]));
  }
  if (bundle && !args.has("json")) await print(pairs(bundlePairs(bundle)));
  const isSent = !now || now.error === null && now.sessions.behind + now.sessions.forked.length === 0 &&
      now.witness?.problem === undefined;
  return isSent && !(bundle && isBad(bundle)) ? 0 : 1;
}

async function enrol(args: Arguments): Promise<number> {
  const [{ useNetworkOf }, { HttpTarget }, { ensureSigningKey, formatPublicKey }] = await Promise.all([
    import("../../../lib/home/mod.ts"),
    import("../../../lib/fleet/ship/mod.ts"),
    import("../../../lib/release/signing/mod.ts"),
  ]);
  const { state } = await useNetworkOf(home());
  const { url: configured, credential_ref, user } = "config" in state ? state.config.file.fleet : {};
  const url = args.text("at") ?? configured;
  if (url === undefined) {
    throw new SbxError("fleet.url.missing", "corp.toml names no collector", {
      hint: 'an administrator sets [fleet] url = "https://HOST" in corp.toml',
    });
  }
  const { publicKey } = await ensureSigningKey(home());
  const name = args.text("name") ?? deviceName();
  const parsed = URL.parse(url);
  if (!parsed || !/^(https?|file):$/.test(parsed.protocol)) {
    throw new SbxError("fleet.url.invalid", `no machine is enrolled at "${shownAddress(url)}"`, {
      hint: "name the receiver: sbx fleet enrol --at https://HOST < token.txt",
    });
  }
  const token = await readSecret(
    "token",
    "type it at the prompt, or redirect it: sbx fleet enrol --at URL < token.txt",
  );
  const request = { token, public_key: formatPublicKey(publicKey), name };
  if (parsed.protocol === "file:") {
    const { enrol: enrolInFolder } = await import("../../../lib/fleet/receive/mod.ts");
    await enrolInFolder(fileURLToPath(parsed), request);
  } else {
    const { sinkAuthorization } = await import("../../../lib/credential/mod.ts");
    // The collector's credential is not for other receivers.
    const authorize = credential_ref && url === configured &&
      sinkAuthorization(home(), { credential_ref, ...(user && { user }) });
    await new HttpTarget(url, undefined, authorize || undefined).enrol(request);
  }
  const enrolled = {
    machine_id: publicKey.id,
    name,
    collector: parsed.protocol === "file:" ? parsed.pathname : parsed.origin,
  };
  if (args.has("json")) await printJson(enrolled);
  else await print(`enrolled ${name} (${publicKey.id.slice(0, 16)}) at ${enrolled.collector}`);
  return 0;
}

async function ask(args: Arguments): Promise<number> {
  const { ANSWER_ROWS, ask: answer, findQuestion, QUESTIONS } = await import(
    "../../../lib/fleet/question/mod.ts"
  );
  const [name, value] = args.words;
  if (name === undefined) {
    const idle = ["over", "credential", "days"].find((option) => args.has(option));
    if (idle) {
      throw new SbxError("usage.invalid", `--${idle} needs a question`, {
        hint: "sbx fleet ask lists the questions",
      });
    }
    if (args.has("json")) {
      await printJson(QUESTIONS.map(({ name, value, about }) => ({ name, value, about })));
    } else {
      await print(
        table(["QUESTION", "VALUE", ""], QUESTIONS.map((each) => [each.name, each.value ?? "", each.about])),
      );
    }
    return 0;
  }
  const question = findQuestion(name);
  const over = args.text("over");
  if (over === undefined) {
    throw new SbxError("usage.invalid", "missing option --over RECORDS", {
      hint: `sbx fleet ask ${name} --over duckdb:///srv/fleet`,
    });
  }
  const [{ openRecords }, { listMachines }] = await Promise.all([
    import("../../../lib/fleet/table/mod.ts"),
    import("../../../lib/fleet/receive/mod.ts"),
  ]);
  await (await import("../../../lib/home/mod.ts")).useNetworkOf(home());
  await using opened = await openRecords(over, recordsAuthorization(args));
  const { engine, store, table: tableOf, hasMachines } = opened;
  if (!tableOf) {
    throw new SbxError(
      "fleet.over.invalid",
      `${over} has ledgers only; questions need the tables of a store`,
      {
        hint: "sbx-admin fleet import DIR LEDGER and sbx-admin fleet tables DIR make a store of ledgers",
      },
    );
  }
  const since = sinceOf(args);
  const rows = await answer(
    {
      engine,
      table: tableOf,
      ...(!hasMachines && { machines: store ? await listMachines(store) : [] }),
    },
    question,
    {
      ...(value !== undefined && { value }),
      ...(since !== undefined && { since }),
    },
  );
  if (args.has("json")) await printJson({ question: name, rows });
  else if (rows.length === 0) await print("nothing");
  else {
    const columns = Object.keys(rows[0]);
    await print(
      table(
        columns.map((column) => column.toUpperCase()),
        rows.map((row) => columns.map((column) => cell(row[column]))),
      ),
    );
    if (rows.length === ANSWER_ROWS) note(`only the first ${ANSWER_ROWS} rows`);
  }
  return 0;
}

function cell(value: string | number | boolean | null): string {
  if (typeof value === "number" && !Number.isInteger(value)) return value.toFixed(3);
  return value === null ? "" : String(value);
}
