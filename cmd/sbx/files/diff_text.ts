/** Changes of a VM for people and for programs. */
import { plain } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type FileChange, pathText, shown, textOf, type UnitChanges } from "../../../lib/repo/mod.ts";

/** Widest bar of `+` and `-` in a summary, in characters. */
const BAR_MAX = 40;

/** Path of a changed file below the folder brought in; where several were, with the name of that above. */
export function fullPath({ label }: Pick<UnitChanges, "label">, path: string): string {
  return label === "" ? path : `${label}/${path}`;
}

/** Lines of `--stat`: each file with the number of its changes, and the sum. */
export function formatStat(units: UnitChanges[]): string {
  const rows = units.flatMap((unit) =>
    unit.files.map((file) => ({ path: shown(fullPath(unit, file.path)), file }))
  );
  const width = Math.max(0, ...rows.map(({ path }) => path.length));
  const most = Math.max(1, ...rows.map(({ file }) => (file.added ?? 0) + (file.removed ?? 0)));
  const lines = rows.map(({ path, file }) => ` ${path.padEnd(width)} | ${formatCounts(file, most)}`);
  const [added, removed] = [sum(rows, "added"), sum(rows, "removed")];
  const commits = units.flatMap((unit) =>
    unit.commits.map(({ id, subject, author }) =>
      `${unit.label === "" ? "" : `${unit.label}: `}${id.slice(0, 12)} ${subject} (${author})`
    )
  );
  return [
    ...commits,
    ...lines,
    rows.length === 0
      ? "no changes"
      : ` ${count(rows.length, "file")} changed, ${added} added, ${removed} removed`,
  ].join("\n");
}

/** Changed files that a line of {@linkcode formatNotable} names; the others are counted. */
const NOTABLE_NAMED = 3;

/** Lines that name changed files on which host programs act, by program; no lines without such files. */
export function formatNotable(units: UnitChanges[]): string[] {
  const paths = new Map<string, string[]>();
  for (const unit of units) {
    for (const { path, notable_by: by } of unit.files) {
      if (by !== undefined) paths.set(by, [...paths.get(by) ?? [], shown(fullPath(unit, path))]);
    }
  }
  if (paths.size === 0) return [];
  return [
    "sbx: programs of this host run or obey these files; look at them before you go on:",
    ...Array.from(paths, ([by, each]) => {
      const rest = each.length - NOTABLE_NAMED;
      const named = each.slice(0, NOTABLE_NAMED).join(", ");
      return `  ${by}: ${named}${rest > 0 ? ` and ${rest} more` : ""}`;
    }),
  ];
}

function formatCounts({ added, removed, status, new_mode }: FileChange, most: number): string {
  const what = status === "modified" ? "" : ` ${status}`;
  const kind = new_mode === "120000" ? " (link)" : new_mode === "160000" ? " (submodule)" : "";
  if (added === undefined) return `binary${what}${kind}`;
  const scale = Math.min(1, BAR_MAX / most);
  return `${added + removed!} ${"+".repeat(Math.ceil(added * scale))}${
    "-".repeat(Math.ceil(removed! * scale))
  }${what}${kind}`;
}

function sum(rows: { file: FileChange }[], field: "added" | "removed"): number {
  return rows.reduce((total, { file }) => total + (file[field] ?? 0), 0);
}

/** A patch as text, with the bytes that are not UTF-8 replaced. */
export function patchText(patch: string): string {
  return plain(textOf(patch), true);
}

/** A patch below the name of its repository, where that has one; git apply passes over such a line. */
export function labelled({ label }: Pick<UnitChanges, "label">, text: string): string {
  return label === "" || text === "" ? text : `in ${shown(label)}:\n${text}`;
}

/** Changes as JSON: paths are text. */
export function jsonOf({ label: _, ...unit }: UnitChanges, patch?: string) {
  return {
    ...unit,
    files: unit.files.map((file) => ({ ...file, path: pathText(file.path) })),
    ...patch !== undefined && { patch: textOf(patch) },
  };
}
