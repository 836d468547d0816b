/** `sbx compare`: what several VMs did with the same task, side by side. */
import type { FindingList, VmInfo } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import {
  changesOf,
  type FileChange,
  noteUntaken,
  type Pick as Picked,
  SHOWN_ID_LENGTH,
} from "../../../lib/repo/mod.ts";
import { connect } from "../connect.ts";
import { fullPath } from "../files/diff_text.ts";
import { collectWork, VmGuest } from "../files/repository.ts";
import { table, usageError } from "../output.ts";
import { formatTotal } from "../record/event_totals.ts";
import { type AgentReport, recordedOf } from "./agent_report.ts";

/** Most VMs side by side: a terminal shows no more. */
export const COMPARED_MAX = 8;
/** Longest run of the tests in a VM, in `s`; `--timeout` replaces it. */
export const TEST_SECONDS = 600;
const TEST_SECONDS_MAX = 3600;
/** Most changed files that the table names. */
const FILES_SHOWN = 40;

/** One VM of a comparison; as `--json` prints it. */
export interface Compared {
  vm: string;
  agent?: string;
  status: string;
  report: Omit<AgentReport, "changes" | "untaken">;
  commits: number;
  files: FileChange[];
  /** an earlier VM of the comparison whose files are the same, byte for byte */
  same_as?: string;
  findings: number;
  /** of `--test` */
  test?: { exit_code: number; seconds: number };
}

export const command: Command = {
  name: "compare",
  usage: "VM VM… [--test COMMAND] [--pieces] [--pick VM:PATH[[:N,N]@ID]] [--json]",
  summary: "show the work of several VMs side by side: files, tests, cost",
  notes: [
    "For the VMs of sbx agent --race and sbx fork, and others that work on one folder. They must be running.",
    "COMMAND runs in each VM, in the folder of its work, as a shell line; the VM's rules hold for it.",
    "--pick takes a file of a VM, or pieces of it as --pieces names them, and may be repeated. All picked pieces become one commit on the branch sbx/FIRST-VM. @ID stands for the change that was shown: where the VM has changed the file since, nothing is taken.",
  ],
  options: [
    { name: "test", value: "COMMAND", about: "run this in each VM and show how it ended" },
    {
      name: "timeout",
      value: "SECONDS",
      about: `longest run of COMMAND in a VM; default ${TEST_SECONDS}, at most ${TEST_SECONDS_MAX}`,
    },
    { name: "pieces", about: "show the changes with the names by which --pick takes them" },
    {
      name: "pick",
      value: "VM:PATH[[:N,N]@ID]",
      many: true,
      about: "take this file of a VM, or these pieces of it (repeatable)",
    },
    { name: "branch", value: "B", about: "with --pick: name of the branch" },
    JSON_OPTION,
  ],
  words: { min: 2, max: COMPARED_MAX },
  completes: ["vms"],
  examples: [
    "sbx compare claude-app-1 claude-app-2",
    'sbx compare try-1 try-2 try-3 --test "npm test"',
    "sbx compare try-1 try-2 --pieces",
    "sbx compare try-1 try-2 --pick try-1:app.ts:1@5f0c7be21a90d4e3 --pick try-2:new.ts",
  ],
  async run(args) {
    const names = args.words;
    if (new Set(names).size < names.length) throw usageError(command, "a VM is named twice");
    const picks = args.list("pick").map((text) => parsePick(text, names));
    if (args.has("branch") && picks.length === 0) throw usageError(command, "--branch goes with --pick");
    if (picks.length > 0 || args.has("pieces")) {
      for (const other of ["test", ...picks.length > 0 ? ["pieces"] : []]) {
        if (args.has(other)) {
          throw usageError(command, `--${other} does not go with --${picks.length > 0 ? "pick" : "pieces"}`);
        }
      }
      const { pick, showPieces } = await import("./compare_pieces.ts");
      const client = await connect();
      return picks.length > 0
        ? await pick(client, names, picks, { branch: args.text("branch"), isJson: args.has("json") })
        : await showPieces(client, names, args.has("json"));
    }
    const seconds = args.number("timeout", { min: 1, max: TEST_SECONDS_MAX }) ?? TEST_SECONDS;
    const line = args.text("test");
    const compared = await compare(
      await connect(),
      names,
      line === undefined ? undefined : { line, seconds },
    );
    if (args.has("json")) await printJson({ vms: compared });
    else {
      await print(formatCompared(compared));
      note(formatChoice(compared));
    }
    return 0;
  },
};

const PICK = new RegExp(
  `^([^:]+):([^]+?)(?::([1-9]\\d{0,5}(?:,[1-9]\\d{0,5})*))?(?:@([0-9a-f]{${SHOWN_ID_LENGTH}}))?$`,
);

/** Reads `VM:PATH`, `VM:PATH@ID` and `VM:PATH:1,3@ID`. */
export function parsePick(text: string, names: readonly string[]): Picked {
  const [, vm, path, numbers, shown] = PICK.exec(text) ?? [];
  if (vm !== undefined && names.includes(vm)) {
    // The VM goes on with its work: a number alone may be another piece by now.
    if (numbers !== undefined && shown === undefined) {
      throw usageError(
        command,
        `--pick "${text}" does not name the change that was shown`,
        "give pieces as --pieces names them: VM:PATH:N@ID",
      );
    }
    return {
      vm,
      path,
      ...numbers !== undefined && { pieces: [...new Set(numbers.split(",").map(Number))] },
      ...shown !== undefined && { shown },
    };
  }
  throw usageError(
    command,
    vm === undefined ? `invalid value "${text}" of --pick` : `--pick names "${vm}", which is not compared`,
    `give VM:PATH, or VM:PATH:1,3@ID for two of its pieces; VM is one of ${names.join(", ")}`,
  );
}

/**
 * Compares the work of several VMs.
 *
 * @param test shell line that is run in each of them
 * @throws {SbxError} `vm.not_found`, `vm.wrong_state`, and the errors of {@linkcode collectWork}
 */
export async function compare(
  client: Client,
  names: readonly string[],
  test?: { line: string; seconds: number },
): Promise<Compared[]> {
  // Each that is missing or stopped is an error before any test runs for minutes.
  const infos = await Promise.all(names.map((name) => new VmGuest(client, name).info()));
  const tests = await Promise.all(infos.map((info) => test && testIn(client, info, test)));
  const compared = await Promise.all(infos.map((info, at) => compareOne(client, info, tests[at])));
  return compared.map((each, at) => {
    const same = compared.slice(0, at).find(({ files }) => isSame(files, each.files));
    return { ...each, ...same && { same_as: same.vm } };
  });
}

async function compareOne(client: Client, info: VmInfo, test?: Compared["test"]): Promise<Compared> {
  const { name, id, agent, status } = info;
  const [recorded, { findings }, work] = await Promise.all([
    recordedOf(client, { name, session: id }),
    client.json<FindingList>("GET", `/sessions/${segment(id)}/findings`, { query: { limit: "1000" } }),
    workOf(client, info),
  ]);
  return {
    vm: name,
    ...agent && { agent },
    status,
    ...test && { test },
    ...work,
    findings: findings.length,
    report: { live: info.live !== undefined, ...recorded },
  };
}

async function workOf(client: Client, { name, live }: VmInfo): Promise<Pick<Compared, "commits" | "files">> {
  if (live && !live.is_repository) return { commits: 0, files: [] };
  await using work = await collectWork(client, name);
  await noteUntaken(work);
  const units = await Promise.all(work.units.map(changesOf));
  return {
    commits: units.reduce((sum, { commits }) => sum + commits.length, 0),
    // As sbx diff and --pick have them.
    files: units.flatMap((unit) => unit.files.map((file) => ({ ...file, path: fullPath(unit, file.path) }))),
  };
}

/** Runs the tests in the folder of a VM's work. */
async function testIn(
  client: Client,
  { name, folder, live }: VmInfo,
  { line, seconds }: { line: string; seconds: number },
): Promise<Compared["test"]> {
  const began = performance.now();
  const place = live?.place ?? folder?.place ?? "/root";
  const script = 'cd "$1" && exec sh -c "$2"';
  const { code } = await new VmGuest(client, name).run(["sh", "-c", script, "sh", place, line], seconds);
  return { exit_code: code, seconds: Math.round((performance.now() - began) / 100) / 10 };
}

/** True if two VMs changed the same files to the same content. */
function isSame(one: readonly FileChange[], other: readonly FileChange[]): boolean {
  const keys = (files: readonly FileChange[]) =>
    files.map(({ path, new_id, new_mode }) => [path, new_id, new_mode].join("\0")).sort().join("\n");
  return one.length > 0 && keys(one) === keys(other);
}

/** The comparison as a table, a VM a column. */
export function formatCompared(compared: readonly Compared[]): string {
  const row = (title: string, cell: (each: Compared) => string | undefined) => {
    const cells = compared.map((each) => cell(each) ?? "");
    return cells.every((cell) => cell === "") ? [] : [[title, ...cells]];
  };
  const paths = [...new Set(compared.flatMap(({ files }) => files.map(({ path }) => path)))].sort();
  const rows = [
    ...row("agent", ({ agent }) => agent),
    ...row("status", ({ status }) => status === "Running" ? undefined : status),
    ...row("test", ({ test }) => test && formatTest(test)),
    ...row("changed", ({ files }) => formatChanged(files)),
    ...row("commits", ({ commits }) => `${commits}`),
    ...row("same as", ({ same_as }) => same_as),
    ...row("findings", ({ findings }) => `${findings}`),
    ...row("refused", ({ report }) => `${report.refused.reduce((sum, { times }) => sum + times, 0)}`),
    ...row("model calls", ({ report }) => `${report.cost.calls}`),
    ...row("cost", ({ report: { cost } }) => cost.calls > 0 ? formatTotal(cost) : undefined),
    ...paths.slice(0, FILES_SHOWN).flatMap((path) =>
      row(path, ({ files }) => formatFile(files.find((file) => file.path === path)))
    ),
  ];
  const more = paths.length - FILES_SHOWN;
  return table(["", ...compared.map(({ vm }) => vm)], rows) +
    (more > 0 ? `\nand ${count(more, "more file")}: sbx diff NAME --stat` : "");
}

function formatTest({ exit_code, seconds }: NonNullable<Compared["test"]>): string {
  return `${exit_code === 0 ? "passed" : `failed (${exit_code})`}, ${seconds} s`;
}

function formatChanged(files: readonly FileChange[]): string {
  const sum = (side: "added" | "removed") => files.reduce((total, file) => total + (file[side] ?? 0), 0);
  return files.length === 0
    ? "nothing"
    : `${count(files.length, "file")} +${sum("added")} -${sum("removed")}`;
}

function formatFile(file: FileChange | undefined): string | undefined {
  if (!file) return undefined;
  const lines = file.added === undefined ? "binary" : `+${file.added} -${file.removed}`;
  return file.status === "modified" ? lines : `${file.status} ${lines}`;
}

/** The commands that follow, with the best VM's name where one stands out. */
export function formatChoice(compared: readonly Compared[]): string {
  const passed = compared.filter(({ test, files }) => test?.exit_code === 0 && files.length > 0);
  const name = plain(
    (passed.length === 1 ? passed[0] : compared.find(({ files }) => files.length > 0))?.vm ?? "NAME",
  );
  return `sbx pull ${name} takes its work, sbx review ${name} parts of it; sbx diff ${name} shows it`;
}
