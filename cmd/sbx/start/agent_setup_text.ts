/** A setup as a person reads it, and as JSON. */
import { posix } from "node:path";
import { plain } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import type { Approval, HostPath, Setup, SetupProgram } from "../../../lib/setup/mod.ts";

/** Longest command line that is shown, in characters. */
const LINE_MAX = 2000;

const KINDS: Record<SetupProgram["kind"], string> = { hook: "hook", server: "MCP server", file: "program" };

/**
 * Its files, its programs, and all that stays.
 * @param options.name of the agent; absent: there are no files
 */
export function formatSetup(
  { files, programs, secrets, paths, leftOut, hash }: Setup,
  { before, name }: { before?: Approval; name?: string },
): string {
  const since = (path: string, digest: string) => {
    if (!before || before.hash === hash) return "";
    const old = Object.hasOwn(before.files, path) ? before.files[path] : undefined;
    return old === undefined ? "new" : old === digest ? "" : "changed";
  };
  const agreed = before?.hash === hash ? before : undefined;
  const state = agreed ? `, agreed to on ${agreed.at.slice(0, 10)}` : "";
  const sections: [string, string[]][] = [
    [
      `your setup of ${name}, hash ${hash.slice(0, 12)}${state}`,
      columns(files.map(({ path, size, digest, is_executable }) => [
        path,
        formatBytes(size),
        [is_executable ? "a program" : "", since(path, digest)].filter(Boolean).join(", "),
      ])),
    ],
    [
      agreed
        ? "it runs in the VM by itself, where you agreed"
        : "it would run in the VM by itself, if you agree",
      programs.flatMap((program, at) => [
        `${at + 1}  ${KINDS[program.kind]} ${program.name ?? program.file}${
          program.name === undefined ? "" : ` of ${program.file}`
        }${agreed ? agreed.programs.includes(program.id) ? ": goes in" : ": left out" : ""}`,
        `     ${oneLine(program.line)}${
          program.host === undefined ? "" : `  (the policy decides about ${program.host})`
        }`,
      ]),
    ],
    [
      "secrets",
      secrets.map(({ file, place, provider, outcome }) =>
        `${file} ${place}: ${provider ? `a key of ${provider}` : "looks like a secret"}, ${
          outcome === "ref" ? "in its place goes the ref of yours" : "withheld"
        }`
      ),
    ],
    ["paths of this host", paths.map((path) => pathText(path, files.map(({ path }) => path)))],
    ["left out", columns(leftOut.map(({ path, reason }) => [path, reason]))],
  ];
  return sections.filter(([, lines]) => lines.length > 0)
    .map(([head, lines]) => [`${head}:`, ...lines.map((line) => `  ${plain(line)}`)].join("\n"))
    .join("\n").replace(/^(?=left out)/, "\n");
}

/** A path of the host, and its place in the VM. */
function pathText({ file, key, path, below }: HostPath, files: readonly string[]): string {
  const place = `${file} ${key}: ${path}`;
  if (below === "repository") return `${place} becomes one of the VM's copy`;
  if (below === "elsewhere") return `${place} stays as it is: the VM has its own, or none`;
  const goes = files.some((each) =>
    path.endsWith(`/${each}`) || posix.join(path, "/").includes(`/${posix.dirname(each)}/`)
  );
  return `${place} becomes one of the VM's home${goes ? "" : ", where it is not"}`;
}

const oneLine = (text: string) =>
  text.length > LINE_MAX ? `${text.slice(0, LINE_MAX)}… (${text.length} characters)` : text;

/** Cells below each other, as wide as the widest one. */
function columns(rows: readonly string[][]): string[] {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at].length))) ?? [];
  return rows.map((row) => row.map((cell, at) => cell.padEnd(widths[at])).join("  ").trimEnd());
}

/** A setup for programs. */
export function setupJson(
  { agent, hash, files, programs, secrets, paths, leftOut }: Setup,
  before?: Approval,
) {
  const isApproved = before?.hash === hash;
  return {
    agent,
    hash,
    approved: isApproved,
    files,
    programs: programs.map((program) => ({
      ...program,
      approved: isApproved && before.programs.includes(program.id),
    })),
    secrets,
    paths,
    left_out: leftOut,
  };
}
