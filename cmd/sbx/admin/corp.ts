import { join, resolve } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import type { CorpInfo, DetectionList, SinkList, SinkTrials } from "../../../lib/client/api/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { connect } from "../connect.ts";
import { brief, note, print, printJson } from "../../../lib/base/print/mod.ts";
import { pairs, table } from "../output.ts";
import { sinkLines } from "../sinks.ts";

/** Corp's limits of project files, in words. */
const PROJECT_FILES = {
  narrow: ".sbx.toml only takes away",
  require: "a new VM for a folder needs its .sbx.toml",
} as const;

export const command: CommandGroup = {
  name: "corp",
  summary: "show corp.toml, validate a new one, or try its sinks",
  subcommands: [
    {
      name: "corp info",
      usage: "[--json]",
      summary: "show everything that is active from corp.toml, with file and line",
      options: [JSON_OPTION],
      examples: ["sbx corp info"],
      run: info,
    },
    {
      name: "corp try",
      usage: "[--json]",
      summary: "send a test event to each sink of corp.toml, and of your own",
      notes: ["The exit code is 1 if one of them did not take it."],
      options: [JSON_OPTION],
      examples: ["sbx corp try"],
      run: tryAll,
    },
    {
      name: "corp validate",
      usage: "FILE [--root DIR] [--json]",
      summary: "validate a corp.toml before deploying it",
      notes: [
        "The exit code is 1 if the file is invalid.",
        "With --root, files that it names by absolute paths are looked for below DIR: the tree of a machine that it is for.",
      ],
      options: [
        { name: "root", value: "DIR", about: "folder with the files of a machine, such as etc/sbx/ca.pem" },
        JSON_OPTION,
      ],
      words: { min: 1, max: 1 },
      completes: ["files"],
      examples: ["sbx corp validate ./corp.toml", "sbx corp validate ./corp.toml --root ./laptop"],
      run: (args) => validate(args.words[0], args),
    },
  ],
};

async function info(args: Arguments): Promise<number> {
  const client = await connect();
  const corp = await client.json<CorpInfo>("GET", "/corp/info");
  const { sinks } = await client.json<SinkList>("GET", "/corp/sinks");
  if (args.has("json")) {
    await printJson({ ...corp, sinks });
    return 0;
  }
  const { rules } = await client.json<DetectionList>("GET", "/detection");
  const packs = Map.groupBy(rules.filter(({ scope }) => scope === "corp"), ({ pack_id }) => pack_id);
  const { rule_files: files } = corp;
  const ids = (items: { id: string }[]) => items.length ? items.map(({ id }) => id).join(" ") : undefined;
  await print(pairs([
    ["corp", corp.summary],
    ["since", corp.since?.replace(/\.\d+Z$/, "Z")],
    ...(corp.error?.split("\n") ?? []).map((problem): [string, string] => ["error", problem]),
    ["locks", ids(corp.settings.filter(({ locked }) => locked))],
    ["hides", ids(corp.settings.filter(({ hidden }) => hidden))],
    ["disables", ids(corp.settings.filter(({ enabled }) => enabled === false))],
    ["MCP servers", ids(corp.mcp_servers.filter(({ enabled }) => enabled))],
    ["disabled MCP servers", ids(corp.mcp_servers.filter(({ enabled }) => !enabled))],
    ["forbids", corp.overlays ? undefined : "rules of your own for built-in profiles (sbx allow --always)"],
    ["project files", corp.project_files && PROJECT_FILES[corp.project_files]],
    ["rules", corp.rule_count ? String(corp.rule_count) : undefined],
    ["rule file", files.enforcement],
    ["detection file", files.sigma],
    ...[...packs].map((
      [id, { length }],
    ): [string, string] => ["pack", `${id} (${count(length, "detection")})`]),
    ["rules off", offRules(rules)],
    ["OCSF sink", sinkOf(files.sigma_output_endpoint, files.sigma_output_credential_ref)],
    ["OTLP sink", sinkOf(files.open_telemetry, files.open_telemetry_credential_ref)],
    ...sinkLines(sinks),
  ]));
  if (corp.in_force.length > 0) {
    const rows = corp.in_force.map(({ kind, id, text, place }) => [kind, id, text, place]);
    await print(`\n${table(["ENTRY", "ID", "VALUE", "FROM"], rows)}`);
  }
  return 0;
}

/** Rules that the person switched off; none is corp's. */
function offRules(rules: DetectionList["rules"]): string | undefined {
  const off = rules.flatMap(({ id, off, rules = [] }) => [
    ...off ? [id] : [],
    ...rules.flatMap((rule) => rule.off ? [rule.id] : []),
  ]);
  return off.length > 0 ? `${[...new Set(off)].join(" ")} (of packs that are not corp's)` : undefined;
}

async function tryAll(args: Arguments): Promise<number> {
  const client = await connect();
  const { sinks } = await client.json<SinkTrials>("POST", "/corp/sinks/try");
  if (args.has("json")) await printJson({ sinks });
  else if (sinks.length === 0) {
    note(
      "neither corp.toml nor sinks.toml names sinks of events; corp.toml is /etc/sbx/corp.toml, or the file that SBX_CORP_CONFIG names",
    );
  } else {
    await print(table(
      ["SINK", "FORM", "RESULT"],
      sinks.map(({ id, form, took_ms, session_id, error }) => [
        id,
        form,
        error ?? `took the event of session ${session_id} in ${took_ms} ms`,
      ]),
    ));
  }
  return sinks.every(({ ok }) => ok) ? 0 : 1;
}

function sinkOf(endpoint: string | undefined, ref: string | undefined): string | undefined {
  if (endpoint === undefined) return undefined;
  return ref === undefined
    ? `${endpoint} (without a credential)`
    : `${endpoint} (credential ${ref.slice(0, 26)}…)`;
}

async function requireDir(path: string): Promise<void> {
  if ((await Deno.stat(path).catch(() => undefined))?.isDirectory) return;
  throw new SbxError("corp.root_invalid", `--root ${path} is not a folder`, {
    hint: "name the folder that stands for / of a machine, with etc/sbx/… in it",
  });
}

/** Validates locally, without the service: the file may not be deployed yet. */
async function validate(file: string, args: Arguments): Promise<number> {
  const { validateCorp } = await import("../../../lib/config/corp/mod.ts");
  const { corpCheck } = await import("../../../lib/home/value_check/mod.ts");
  const root = args.text("root");
  if (root !== undefined) await requireDir(root);
  const check = root === undefined ? corpCheck() : corpCheck((path) => join(resolve(root), path));
  const result = await validateCorp(file, check);
  if (args.has("json")) await printJson(result);
  else {
    for (const problem of result.problems) note(brief(problem));
    for (const warning of result.warnings) note(`warning: ${warning}`);
    if (result.ok) await print(`${file} is valid`);
  }
  return result.ok ? 0 : 1;
}
