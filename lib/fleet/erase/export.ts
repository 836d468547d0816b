/**
 * Export for a data subject: all rows of a person, machine or session, verified,
 * as files that anyone can read.
 */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { FLEET_LOG_TYPE, signText } from "../../release/signing/mod.ts";
import { readStoreKey, StoreLog } from "../log/mod.ts";
import { findMachine, keyOf, type Machine } from "../receive/mod.ts";
import { openStored, verifyRows } from "../segment/mod.ts";
import { namesIn, positionOf, sessionFolder, storePaths } from "../store.ts";
import { keepStatement } from "./erase.ts";
import type { Subject } from "./subject.ts";

/** Content of an export, signed by the store in `export.json`. */
export interface Exported {
  schema: "sbx.fleet-export.v1";
  id: string;
  at: string;
  by: string;
  machines: { machine_id: string; name: string; team?: string; enrolled_at: string }[];
  sessions: {
    machine_id: string;
    session_id: string;
    file: string;
    blake3: string;
    rows: number;
    erased: number;
  }[];
  findings: { file: string; blake3: string; rows: number } | null;
}

/**
 * Writes an export into a new folder. The log names its statement, without its content.
 *
 * @throws {SbxError} `fleet.export.exists`, `fleet.segment.invalid`
 */
export async function exportSubject(
  dir: string,
  { sessions }: Subject,
  { to, by }: { to: string; by: string },
): Promise<Exported> {
  await Deno.mkdir(to, { mode: 0o700 }).catch((cause) => {
    if (!(cause instanceof Deno.errors.AlreadyExists)) throw cause;
    throw new SbxError("fleet.export.exists", `${to} exists`, { cause, hint: "name a folder that does not" });
  });
  const storeKey = await readStoreKey(dir);
  const machines = new Map<string, Machine>();
  const exported: Exported = {
    schema: "sbx.fleet-export.v1",
    id: crypto.randomUUID(),
    at: new Date().toISOString(),
    by,
    machines: [],
    sessions: [],
    findings: null,
  };
  for (const { machine_id, session_id } of sessions) {
    let machine = machines.get(machine_id);
    if (!machine) {
      machine = await findMachine(dir, machine_id);
      if (!machine) continue;
      machines.set(machine_id, machine);
    }
    const own = keyOf(machine);
    const folder = sessionFolder(dir, machine_id, session_id);
    const lines: string[] = [];
    let erased = 0;
    for (const name of (await namesIn(folder)).filter(positionOf).sort()) {
      const bytes = await Deno.readFile(join(folder, name));
      const opened = await openStored(bytes, (id) => id === own.id ? own : undefined, storeKey);
      for (const line of verifyRows(opened)) {
        if (line.kind === "erased" || line.kind === "journal" && line.text === null) erased++;
        else if (line.kind === "event") {
          lines.push(
            JSON.stringify({ event: json(line.text), ...(line.record && { record: json(line.record) }) }),
          );
        } else {lines.push(
            JSON.stringify({ [line.kind === "outcome" ? "outcome" : line.of]: json(line.text!) }),
          );}
      }
    }
    const file = `${machine_id.slice(0, 16)}-${session_id}.jsonl`;
    const hash = await write(join(to, file), lines);
    exported.sessions.push({ machine_id, session_id, file, blake3: hash, rows: lines.length, erased });
  }
  exported.machines = [...machines.values()].map(({ machine_id, name, team, enrolled_at }) => ({
    machine_id,
    name,
    ...(team !== undefined && { team }),
    enrolled_at,
  }));
  const findings = await findingsOf(
    dir,
    new Set(sessions.map((each) => `${each.machine_id}/${each.session_id}`)),
  );
  if (findings.length > 0) {
    const file = "findings.jsonl";
    exported.findings = { file, blake3: await write(join(to, file), findings), rows: findings.length };
  }
  const key = await StoreLog.of(dir).key();
  await Deno.writeTextFile(
    join(to, "export.json"),
    await signText(key, FLEET_LOG_TYPE, canonicalJson(exported)),
    {
      mode: 0o600,
    },
  );
  // The statement names no person and no machine.
  const { id, at } = exported;
  await keepStatement(
    dir,
    "exported",
    key,
    Object.assign(
      { schema: "sbx.fleet-export-statement.v1", id, at, by },
      { export: blake3(canonicalJson(exported)), sessions: exported.sessions.length },
    ),
  );
  return exported;
}

async function findingsOf(dir: string, sessions: ReadonlySet<string>): Promise<string[]> {
  const { findings } = storePaths(dir);
  const found: string[] = [];
  for (const pack of await namesIn(findings)) {
    if (pack.startsWith(".")) continue;
    for (const name of await namesIn(join(findings, pack))) {
      if (!name.endsWith(".jsonl")) continue;
      const [, ...lines] = (await Deno.readTextFile(join(findings, pack, name))).trimEnd().split("\n");
      for (const line of lines) {
        const { machine_id, session_id } = JSON.parse(line);
        if (sessions.has(`${machine_id}/${session_id}`)) found.push(line);
      }
    }
  }
  return found;
}

async function write(path: string, lines: readonly string[]): Promise<string> {
  const text = lines.map((line) => `${line}\n`).join("");
  await Deno.writeTextFile(path, text, { mode: 0o600, createNew: true });
  return blake3(text);
}

/** Rows of a broken machine need not be JSON. */
function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
