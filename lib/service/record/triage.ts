/**
 * The life of findings: new, acknowledged, closed (docs/design/contracts/06-detection.md §6, "Triage"). A
 * file beside each ledger has the changes, since records of a session never change.
 */
import { z } from "zod";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { FindingState, type FindingStateChange } from "../../client/api/mod.ts";
import { readFindings } from "../../ledger/read/mod.ts";
import type { AnsweredBy } from "../../policy/mod.ts";

/** Most states that are kept of one finding: the first, and the latest ones. */
const HISTORY_MAX = 20;
/** Most findings that a session's file has; later changes are refused. */
const FINDINGS_MAX = 10_000;
/** Findings that are searched for the ones of a change. */
const SEARCHED_MAX = 100_000;

const File = z.strictObject({
  schema: z.literal("sbx.finding-states.v1"),
  /** states by finding id, oldest first */
  findings: z.record(z.string(), z.array(FindingState).min(1)),
});
type File = z.infer<typeof File>;

/** Changes of one file follow each other. */
let last: Promise<unknown> = Promise.resolve();

/** The state of each finding of a session that is no longer new. @throws {SbxError} `findings.unreadable` */
export async function readStates(ledger: string): Promise<Map<string, FindingState[]>> {
  return new Map(Object.entries((await readFile(ledger)).findings));
}

/**
 * Gives findings a state.
 *
 * @param named ids of findings or of their events
 * @returns ids of the findings
 * @throws {SbxError} `findings.not_found`, `findings.limit`, `findings.unreadable`
 */
export function changeStates(
  ledger: string,
  named: readonly string[],
  change: FindingStateChange,
  by: AnsweredBy,
): Promise<string[]> {
  const done = last.then(async () => {
    const ids = await idsOf(ledger, named);
    const file = await readFile(ledger);
    const state: FindingState = { ...change, by, at: new Date().toISOString() };
    for (const id of ids) {
      const [first, ...rest] = [...file.findings[id] ?? [], state];
      file.findings[id] = [first, ...rest.slice(1 - HISTORY_MAX)];
    }
    if (Object.keys(file.findings).length > FINDINGS_MAX) {
      throw new SbxError("findings.limit", `a session keeps the states of ${FINDINGS_MAX} findings`, {
        hint: "make an exception from one of them (docs/guides/detection.md)",
      });
    }
    await writeAtomic(pathOf(ledger), JSON.stringify(file));
    return ids;
  });
  last = done.catch(ignore("the caller has the failure; the next change goes on"));
  return done;
}

/** Ids of the findings that are named by their id or that of their event. */
export async function idsOf(ledger: string, named: readonly string[]): Promise<string[]> {
  const all = await readFindings(ledger, { limit: SEARCHED_MAX });
  return [
    ...new Set(named.flatMap((name) => {
      const found = all.filter(({ finding_id, event_id }) => name === finding_id || name === event_id);
      if (found.length > 0) return found.map(({ finding_id }) => finding_id);
      throw new SbxError("findings.not_found", `the session has no finding "${name}"`, {
        hint: "give the id of an event or of a finding, as the list of findings has it",
      });
    })),
  ];
}

async function readFile(ledger: string): Promise<File> {
  const path = pathOf(ledger);
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { schema: "sbx.finding-states.v1", findings: {} };
    throw asSbxError(error, `reading ${path}`);
  }
  try {
    return File.parse(JSON.parse(text));
  } catch {
    throw new SbxError("findings.unreadable", `${path} is damaged`, {
      hint: "remove it: the findings are new again",
    });
  }
}

function pathOf(ledger: string): string {
  return `${ledger}.findings`;
}
