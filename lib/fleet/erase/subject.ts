/** Whose rows: homes of a person, a machine with its homes, or one session. */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { listMachines, type Machine } from "../receive/mod.ts";
import { SESSION_ID } from "../segment/mod.ts";
import { namesIn, storePaths } from "../store.ts";

/** A session of a machine. */
export interface SessionKey {
  machine_id: string;
  session_id: string;
}

export interface Subject {
  /** machines of which everything goes, also their names */
  machines: Machine[];
  sessions: SessionKey[];
}

/**
 * Finds a subject.
 *
 * @param wanted one of them: a person has homes called `PERSON@MACHINE …`; a machine
 * is named by its whole name or id
 * @throws {SbxError} `fleet.subject.unknown`
 */
export async function findSubject(
  dir: string,
  { person, machine, session }: { person?: string; machine?: string; session?: string },
): Promise<Subject> {
  const all = await listMachines(dir);
  if (session !== undefined) {
    const sessions: SessionKey[] = [];
    for (const { machine_id } of SESSION_ID.test(session) ? all : []) {
      const names = await namesIn(join(storePaths(dir).segments, machine_id));
      if (names.includes(session)) sessions.push({ machine_id, session_id: session });
    }
    if (sessions.length === 0) throw unknown(dir, `no session of ${dir} is "${session}"`);
    return { machines: [], sessions };
  }
  const own = all.filter(({ machine_id, name, of }) =>
    person !== undefined
      ? of !== undefined && name.startsWith(`${person}@`)
      : machine_id === machine || name === machine
  );
  if (own.length === 0) {
    throw unknown(
      dir,
      person !== undefined ? `no home of ${dir} is of "${person}"` : `no machine of ${dir} is "${machine}"`,
    );
  }
  const ids = new Set(own.map(({ machine_id }) => machine_id));
  const machines = all.filter(({ machine_id, of }) => ids.has(machine_id) || of !== undefined && ids.has(of));
  const sessions: SessionKey[] = [];
  for (const { machine_id } of machines) {
    for (const session_id of await namesIn(join(storePaths(dir).segments, machine_id))) {
      if (SESSION_ID.test(session_id)) sessions.push({ machine_id, session_id });
    }
  }
  return { machines, sessions };
}

function unknown(dir: string, message: string): SbxError {
  return new SbxError("fleet.subject.unknown", message, {
    hint: `sbx-admin fleet machines ${dir} lists machines and homes with their names`,
  });
}
