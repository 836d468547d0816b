/**
 * The record of every change of rules and overlays, oldest first (docs/design/contracts/05-policy.md §5,
 * "Changes of rules").
 */
import { dirname, join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { objectOf } from "../../base/object/mod.ts";
import type { RuleTable } from "../../policy/author/mod.ts";
import type { DetectionChange, RecordedChange, RuleChange } from "../../policy/author/schema.ts";
import { withFileLock } from "../../config/settings/mod.ts";

/** A change before it has an id and a time. */
export type NewChange =
  | Omit<RuleChange, "change_id" | "at" | "what">
  | Omit<DetectionChange, "change_id" | "at" | "what">;

/** Changes of one home. Each line has the hash of the line before, so that a removed line shows. */
export class RuleRecord {
  readonly path: string;

  constructor({ dir }: Pick<Home, "dir">) {
    this.path = join(dir, "record", "rules.jsonl");
  }

  /** Changes, oldest first. @throws {SbxError} `policy.record.unreadable`: a line is damaged or missing */
  async list(): Promise<RecordedChange[]> {
    const { RecordedChange } = await import("../../policy/author/schema.ts");
    let previous = "";
    return (await this.#lines()).map((line, at) => {
      const { previous: named, ...change } = jsonOf(line);
      const { data } = RecordedChange.safeParse(change);
      if (named !== previous || !data) throw this.#unreadable(at + 1);
      previous = blake3(line);
      return data;
    });
  }

  /** Adds changes; they are on the disk before they take place. */
  async add(changes: readonly NewChange[]): Promise<RecordedChange[]> {
    if (changes.length === 0) return [];
    await Deno.mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
    return await withFileLock(`${this.path}.lock`, async () => {
      let previous = blake3Of((await this.#lines()).at(-1));
      const at = new Date().toISOString();
      const added = changes.map((change): RecordedChange => ({
        change_id: `c${crypto.randomUUID().replaceAll("-", "").slice(0, 12)}`,
        at,
        what: whatOf(change),
        ...change,
      }));
      const lines = added.map((change) => {
        const line = JSON.stringify({ ...change, previous });
        previous = blake3(line);
        return line;
      });
      using file = await Deno.open(this.path, { append: true, create: true, mode: 0o600 });
      // A line of its own also behind one that a crash cut off.
      const bytes = new TextEncoder().encode(`\n${lines.join("\n")}\n`);
      for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
      await file.sync();
      return added;
    });
  }

  /** Complete lines; a crash may have cut off a change, which then did not take place. */
  async #lines(): Promise<string[]> {
    try {
      const text = await Deno.readTextFile(this.path);
      return text.split("\n").filter((line) => Object.keys(jsonOf(line)).length > 0);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  #unreadable(line: number): SbxError {
    return new SbxError(
      "policy.record.unreadable",
      `${this.path}: change ${line} is damaged, or one before is gone`,
      {
        hint: "keep a copy of the file and remove it: a new record begins with the rules of now",
      },
    );
  }
}

/** Rules of each profile after its recorded changes. */
export function rulesAfter(changes: readonly RecordedChange[], profileId: string): Map<string, RuleTable> {
  const rules = new Map<string, RuleTable>();
  for (const change of changes) {
    if (change.kind !== "rule" || change.profile_id !== profileId) continue;
    const { rule_id, after } = change;
    if (after) rules.set(rule_id, after);
    else rules.delete(rule_id);
  }
  return rules;
}

/** The change of an id. @throws {SbxError} `policy.change.not_found` */
export async function findChange(record: RuleRecord, changeId: string): Promise<RecordedChange> {
  const change = (await record.list()).find(({ change_id }) => change_id === changeId);
  if (change) return change;
  throw new SbxError("policy.change.not_found", `no change ${changeId} is recorded`, {
    hint: "sbx policy changes lists them",
  });
}

/** Tests whether two rules or overlays are the same, or both are absent. */
export function isSame(a: object | undefined, b: object | undefined): boolean {
  return canonicalJson(a ?? null) === canonicalJson(b ?? null);
}

function whatOf({ before, after }: NewChange): RuleChange["what"] {
  if (!before) return "create";
  if (!after) return "delete";
  const { enabled: was, ...rest } = before;
  const { enabled: is, ...others } = after;
  if (was === is || canonicalJson(rest) !== canonicalJson(others)) return "edit";
  return is ? "enable" : "disable";
}

function blake3Of(line: string | undefined): string {
  return line === undefined ? "" : blake3(line);
}

function jsonOf(line: string): Record<string, unknown> {
  try {
    return objectOf(JSON.parse(line));
  } catch {
    return {};
  }
}
