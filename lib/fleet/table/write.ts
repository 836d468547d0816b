/**
 * Verified segments → Parquet, by DuckDB. A part has whole segments and appears atomically, so that no row is
 * duplicated.
 */
import { join } from "node:path";
import { ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { lockWithin } from "../../base/home/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import { DuckDb } from "../engine.ts";
import { findMachine, keyOf } from "../receive/mod.ts";
import { type Line, openStored, verifyRows } from "../segment/mod.ts";
import { readStoreKey } from "../log/mod.ts";
import { storePaths } from "../store.ts";
import { EVENT_FIELDS, OUTCOME_FIELDS, structureOf } from "./columns.ts";
import { allSegments } from "./load.ts";
import { clean } from "./row.ts";

/** Unpacked text of one part, in characters: the amount in memory and in one file. */
const PART_CHARS = 256 * 1024 * 1024;

export interface Written {
  parts: number;
  segments: number;
  events: number;
}

/**
 * Adds the rows of all segments that are in no part yet.
 *
 * @param onSegment callback for a progress bar
 * @throws {SbxError} `fleet.tables.busy`: another program writes;
 * `fleet.engine.missing`, `fleet.segment.invalid`
 */
export async function writeTables(dir: string, onSegment?: (events: number) => void): Promise<Written> {
  const { parts } = storePaths(dir);
  await Deno.mkdir(parts, { recursive: true, mode: 0o700 });
  using lock = await Deno.open(join(parts, ".lock"), { create: true, write: true, mode: 0o600 });
  if (!await lockWithin(lock, 0)) {
    throw new SbxError("fleet.tables.busy", `another program writes the tables of ${dir}`, {
      hint: "try again later",
    });
  }
  await removeLeftovers(parts);
  const written: Written = { parts: 0, segments: 0, events: 0 };
  await using duck = await DuckDb.open();
  const done = await doneSegments(parts);
  const storeKey = await readStoreKey(dir);
  let part = new Part();
  const finish = async () => {
    if (part.segments.length === 0) return;
    await part.write(duck, parts);
    written.parts++;
    part = new Part();
  };
  for await (const { machineId, sessionId, name } of allSegments(dir)) {
    const key = `${machineId}/${sessionId}/${name}`;
    if (done.has(key)) continue;
    const machine = await findMachine(dir, machineId);
    if (!machine) continue;
    const own = keyOf(machine);
    const opened = await openStored(
      await Deno.readFile(join(storePaths(dir).segments, key)),
      (id) => id === own.id ? own : undefined,
      storeKey,
    );
    const events = part.add(key, opened.header, verifyRows(opened));
    written.segments++;
    written.events += events;
    onSegment?.(events);
    if (part.chars >= PART_CHARS) await finish();
  }
  await finish();
  return written;
}

/** Rows on their way into one part. */
class Part {
  readonly segments: string[] = [];
  readonly #lines: Record<"events" | "outcomes" | "journal", string[]> = {
    events: [],
    outcomes: [],
    journal: [],
  };
  chars = 0;

  /** @returns number of events */
  add(
    segment: string,
    { machine_id, session_id, from }: {
      machine_id: string;
      session_id: string;
      from: Record<string, string | number>;
    },
    lines: readonly Line[],
  ): number {
    this.segments.push(segment);
    let [events, outcomes, journal] = [Number(from.events), Number(from.outcomes), Number(from.journal)];
    let erased = 0;
    for (const line of lines) {
      const start = `${machine_id}\t${session_id}\t`;
      let text: string;
      if (line.kind === "erased") {
        // Its number stays free.
        if (line.of === "event") {
          events++;
          erased++;
        } else outcomes++;
        continue;
      }
      if (line.kind === "event") {
        text = `${start}${++events}\t${line.whole}\t${line.hash}\t${clean(line.text)}\t${
          clean(line.record ?? "")
        }\n`;
        this.#lines.events.push(text);
      } else if (line.kind === "outcome") {
        text = `${start}${++outcomes}\t${line.whole}\t${line.hash}\t${clean(line.text)}\n`;
        this.#lines.outcomes.push(text);
      } else {
        text = `${start}${++journal}\t${clean(line.of)}\t${clean(line.id)}\t${line.hash}\t${
          clean(line.text ?? "")
        }\n`;
        this.#lines.journal.push(text);
      }
      this.chars += text.length;
    }
    return events - Number(from.events) - erased;
  }

  async write(duck: DuckDb, parts: string): Promise<void> {
    const name = blake3(this.segments.join("\n")).slice(0, 32);
    const folder = join(parts, `.${name}`);
    await ifFound(Deno.remove(folder, { recursive: true }));
    await Deno.mkdir(folder, { mode: 0o700 });
    try {
      for (const table of ["events", "outcomes", "journal"] as const) {
        const input = join(folder, `${table}.tsv`);
        const longest = await writeLines(input, this.#lines[table]);
        await duck.rows(COPY[table](quote(input), quote(join(folder, `${table}.parquet`)), longest));
        await Deno.remove(input);
        await sync(join(folder, `${table}.parquet`));
      }
      await Deno.writeTextFile(join(folder, "segments.json"), JSON.stringify(this.segments));
      await sync(join(folder, "segments.json"));
      // After a power cut a part is there with all of its files, or not at all.
      await sync(folder);
      await Deno.rename(folder, join(parts, name));
      await sync(parts);
    } catch (error) {
      await Deno.remove(folder, { recursive: true }).catch(ignore("the next writer removes it"));
      throw error;
    }
  }
}

/** @returns most `bytes` that a line may have */
async function writeLines(path: string, lines: string[]): Promise<number> {
  using file = await Deno.open(path, { write: true, create: true, truncate: true, mode: 0o600 });
  const encoder = new TextEncoder();
  for (let at = 0; at < lines.length; at += 1000) {
    const bytes = encoder.encode(lines.slice(at, at + 1000).join(""));
    await writeAll(file, bytes);
  }
  // A UTF-16 unit has at most three bytes.
  return 3 * lines.reduce((most, { length }) => Math.max(most, length), 0) + 1;
}

/** Longest row that DuckDB accepts by default, in `bytes`; its buffer is sixteen times as long. */
const ROW_BYTES = 2 * 1024 * 1024;

const ROWS = (columns: string) => (input: string, longest: number) =>
  `read_csv('${input}', header = false, auto_detect = false, delim = '\\t', quote = '', escape = '', new_line = '\\n',
    nullstr = '', max_line_size = ${Math.max(longest, ROW_BYTES)}, columns = {${columns}})`;
const KEYS = "'machine_id': 'VARCHAR', 'session_id': 'VARCHAR', 'number': 'BIGINT'";
const TO = (output: string) => `TO '${output}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 6)`;
const FIELD = (path: string) => path.split(".").map((part) => `"${part}"`).join(".");

/** Statements that make a table of a part. Invalid JSON, which only a broken machine sends, has no fields. */
const COPY = {
  events: (input: string, output: string, longest: number) =>
    `COPY (SELECT machine_id, session_id, number AS sequence, split_part(t.common.event_type, '.', 1) AS family,
      ${EVENT_FIELDS.map(({ name, path }) => `t.${FIELD(path!)} AS ${name}`).join(", ")},
      if(json_valid(record), json_extract_string(record, '$.decision'), NULL) AS decision,
      if(json_valid(record), json_extract_string(record, '$.rule.id'), NULL) AS rule_id,
      whole, hash, event, record
    FROM (SELECT *, json_transform(if(json_valid(event), event, '{}'), '${structureOf(EVENT_FIELDS)}') AS t
      FROM ${
      ROWS(`${KEYS}, 'whole': 'BOOLEAN', 'hash': 'VARCHAR', 'event': 'VARCHAR', 'record': 'VARCHAR'`)(
        input,
        longest,
      )
    }))
    ${TO(output)}`,
  outcomes: (input: string, output: string, longest: number) =>
    `COPY (SELECT machine_id, session_id, number, json_extract_string(o, '$.event_id') AS event_id,
      json_extract_string(o, '$.decision.decision') AS decision,
      json_extract_string(o, '$.decision.rule.id') AS rule_id,
      json_exists(o, '$.response') AS has_response,
      ${OUTCOME_FIELDS.map(({ name, path }) => `t.${FIELD(path!)} AS ${name}`).join(", ")},
      whole, hash, outcome
    FROM (SELECT *, if(json_valid(outcome), outcome, '{}') AS o, json_transform(o, '${
      structureOf(OUTCOME_FIELDS)
    }') AS t
      FROM ${ROWS(`${KEYS}, 'whole': 'BOOLEAN', 'hash': 'VARCHAR', 'outcome': 'VARCHAR'`)(input, longest)}))
    ${TO(output)}`,
  journal: (input: string, output: string, longest: number) =>
    `COPY (SELECT * FROM ${
      ROWS(`${KEYS}, 'kind': 'VARCHAR', 'id': 'VARCHAR', 'hash': 'VARCHAR', 'record': 'VARCHAR'`)(
        input,
        longest,
      )
    }) ${TO(output)}`,
};

function quote(path: string): string {
  return path.replaceAll("'", "''");
}

/** Removes leftovers of a killed writer; the holder of the lock is the only writer. */
async function removeLeftovers(parts: string): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(parts)) {
    if (isDirectory && name.startsWith(".")) await Deno.remove(join(parts, name), { recursive: true });
  }
}

async function sync(path: string): Promise<void> {
  using file = await Deno.open(path);
  await file.sync();
}

async function doneSegments(parts: string): Promise<Set<string>> {
  const done = new Set<string>();
  for await (const { name, isDirectory } of Deno.readDir(parts)) {
    if (!isDirectory || name.startsWith(".")) continue;
    for (const segment of JSON.parse(await Deno.readTextFile(join(parts, name, "segments.json")))) {
      done.add(segment);
    }
  }
  return done;
}
