/** Machines that may send: enrolled by a one-time token, each with its key. */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { PublicKey } from "../../release/mod.ts";
import { parsePublicKeys } from "../../release/signing/mod.ts";
import { HEX64 } from "../segment/mod.ts";
import { readReport } from "../ship/mod.ts";
import { keepFile, reportPath, storePaths } from "../store.ts";
import { openHomeCertificate } from "../enrolment/mod.ts";
import { recordHash, StoreLog } from "../log/mod.ts";
import { Label, takePlace, termsOf, TokenText } from "./tokens.ts";

/** A machine's request to enrol. */
export const EnrolRequest = z.strictObject({
  token: TokenText,
  public_key: z.string().max(1024),
  name: Label,
});

export const Machine = z.strictObject({
  schema: z.literal("sbx.fleet-machine.v1"),
  machine_id: z.string().regex(HEX64),
  public_key: z.string(),
  name: Label,
  team: Label.optional(),
  enrolled_at: z.iso.datetime(),
  /** of a home: the machine that certified it */
  of: z.string().regex(HEX64).optional(),
  /** random: the log of the store has the hash of this file, from which the name cannot be guessed */
  salt: z.string().regex(/^[0-9a-f]{32}$/).optional(),
});
export type Machine = z.infer<typeof Machine>;

/**
 * Enrols a machine, which takes a place of its token. Names are unique in a store.
 *
 * @throws {SbxError} `fleet.token.invalid`: unknown, used, expired, or for another name;
 * `fleet.machine.invalid`; `fleet.machine.name`: another machine has the name, or this one another name
 */
export async function enrol(dir: string, request: unknown, now = Date.now()): Promise<Machine> {
  const parsed = EnrolRequest.safeParse(request);
  if (!parsed.success) {
    throw new SbxError("fleet.machine.invalid", `the machine is refused: ${z.prettifyError(parsed.error)}`);
  }
  const { token, public_key, name } = parsed.data;
  const keys = parsePublicKeys(public_key, "the request");
  if (keys.length !== 1) {
    throw new SbxError("fleet.machine.invalid", "the machine is refused: it has one key");
  }
  const terms = await termsOf(dir, token, now);
  if (terms.name !== undefined && terms.name !== name) {
    throw new SbxError("fleet.token.invalid", `the token is not for a machine with the name "${name}"`, {
      hint: "enrol with the name that the token was made for (--name NAME); the token is not used up",
    });
  }
  const [{ id: machine_id }] = keys;
  await requireInFleet(dir, machine_id);
  // The same key again is the same machine: it lost its own note of it.
  const known = await findMachine(dir, machine_id);
  if (known) {
    sameName(known, name);
    await logMachine(dir, known);
    return known;
  }
  const release = await reserveName(dir, name, machine_id);
  try {
    await takePlace(dir, token, terms, machine_id);
  } catch (error) {
    await release();
    throw error;
  }
  const machine: Machine = {
    schema: "sbx.fleet-machine.v1",
    machine_id,
    public_key,
    name,
    ...(terms.team !== undefined && { team: terms.team }),
    enrolled_at: new Date(now).toISOString(),
    salt: newSalt(),
  };
  const text = new TextEncoder().encode(JSON.stringify(machine, null, 2) + "\n");
  if (await keepFile(machinePath(dir, machine_id), text)) {
    await logMachine(dir, machine);
    return machine;
  }
  const first = (await findMachine(dir, machine_id))!;
  if (first.name !== name) await release();
  return sameName(first, name);
}

function newSalt(): string {
  return crypto.getRandomValues(new Uint8Array(16)).toHex();
}

/**
 * Notes a machine in the log of the store, once.
 * @throws {SbxError} `fleet.log.damaged`, `fleet.store.unavailable`
 */
async function logMachine(dir: string, machine: Machine): Promise<void> {
  await StoreLog.of(dir).enrolled(machine, () => listMachines(dir));
}

/**
 * A machine has one name: with a second one it would keep that from others.
 * @throws {SbxError} `fleet.machine.name`
 */
function sameName(machine: Machine, name: string): Machine {
  if (machine.name === name) return machine;
  throw new SbxError(
    "fleet.machine.name",
    `this machine is enrolled as "${machine.name}", not as "${name}"`,
    {
      hint: `enrol it with its name: --name "${machine.name}"`,
    },
  );
}

/** A machine's request to enrol one of its homes. */
export const EnrolHomeRequest = z.strictObject({ certificate: z.string().max(8192) });

/**
 * Enrols a home that an enrolled machine certified: it sends with its own key, in its machine's team.
 *
 * @throws {SbxError} `fleet.home.invalid`, `fleet.machine.invalid`
 */
export async function enrolHome(dir: string, request: unknown, now = Date.now()): Promise<Machine> {
  const parsed = EnrolHomeRequest.safeParse(request);
  if (!parsed.success) {
    throw new SbxError("fleet.machine.invalid", `the home is refused: ${z.prettifyError(parsed.error)}`);
  }
  const { machine_id, home_id, public_key, user } = await openHomeCertificate(
    parsed.data.certificate,
    async (id) => {
      const machine = await findMachine(dir, id);
      await requireInFleet(dir, id);
      // A home certifies no home.
      return machine && machine.of === undefined ? keyOf(machine) : undefined;
    },
  );
  const parent = (await findMachine(dir, machine_id))!;
  const [key] = parsePublicKeys(public_key, "the certificate");
  if (key.id !== home_id) throw new SbxError("fleet.home.invalid", "the certificate is of another key");
  await requireInFleet(dir, home_id);
  const known = await findMachine(dir, home_id);
  if (known) {
    await logMachine(dir, known);
    return known;
  }
  const home = Machine.parse({
    schema: "sbx.fleet-machine.v1",
    machine_id: home_id,
    public_key,
    name: homeName(user, parent.name, home_id),
    ...(parent.team !== undefined && { team: parent.team }),
    enrolled_at: new Date(now).toISOString(),
    of: machine_id,
    salt: newSalt(),
  });
  await keepFile(machinePath(dir, home_id), new TextEncoder().encode(`${JSON.stringify(home, null, 2)}\n`));
  // Of two requests at once, one has the file.
  const kept = (await findMachine(dir, home_id))!;
  await logMachine(dir, kept);
  return kept;
}

/**
 * A label, whatever the machine says that its user is: a file with another name
 * would make the store unreadable.
 */
function homeName(user: string, machine: string, homeId: string): string {
  const name = `${user}@${machine}`.replaceAll(/[^\p{L}\p{N} ._@-]/gu, "-").replace(/^[^\p{L}\p{N}]+/u, "");
  return `${[...name].slice(0, 50).join("")} ${homeId.slice(0, 8)}`;
}

/**
 * Reserves a name for a machine.
 *
 * @returns gives the name back, if this call reserved it
 * @throws {SbxError} `fleet.machine.name`
 */
async function reserveName(dir: string, name: string, machineId: string): Promise<() => Promise<void>> {
  const path = namePath(dir, name);
  if (await keepFile(path, new TextEncoder().encode(JSON.stringify({ name, machine_id: machineId })))) {
    return () => Deno.remove(path);
  }
  const owner = JSON.parse(await Deno.readTextFile(path)).machine_id;
  if (owner === machineId) return () => Promise.resolve();
  throw new SbxError("fleet.machine.name", `another machine is enrolled as "${name}"`, {
    hint: "choose another name (--name NAME); sbx-admin fleet machines DIR lists the names in use",
  });
}

/** Erases a machine's name; its key and its records' hashes stay. @returns false: it had none any more */
export async function redactMachine(dir: string, machine: Machine): Promise<boolean> {
  const name = `erased ${machine.machine_id.slice(0, 16)}`;
  if (machine.name === name) return false;
  const redacted: Machine = { ...machine, name, salt: newSalt() };
  await logMachine(dir, machine);
  await writeAtomic(machinePath(dir, machine.machine_id), `${JSON.stringify(redacted, null, 2)}\n`);
  await freeName(dir, machine);
  await StoreLog.of(dir).append({
    kind: "redacted",
    machine_id: machine.machine_id,
    record: recordHash(redacted),
  });
  return true;
}

/** Finds a machine. */
export async function findMachine(dir: string, id: string): Promise<Machine | undefined> {
  if (!HEX64.test(id)) return undefined;
  try {
    return Machine.parse(JSON.parse(await Deno.readTextFile(machinePath(dir, id))));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw new SbxError("fleet.store.unavailable", `the file of machine ${id} cannot be read`, {
      cause: error,
    });
  }
}

/** End of a machine in a fleet: it left in order, or its key is not trusted any more. */
export const MachineEnd = z.strictObject({
  kind: z.enum(["retired", "revoked"]),
  at: z.iso.datetime(),
  by: z.string().max(256),
  reason: z.string().max(256).optional(),
});
export type MachineEnd = z.infer<typeof MachineEnd>;

/**
 * Finds the end of a machine; `undefined`: it is in the fleet.
 * @throws {SbxError} `fleet.store.unavailable`
 */
export async function endOf(dir: string, id: string): Promise<MachineEnd | undefined> {
  try {
    const text = await ifFound(Deno.readTextFile(endPath(dir, id)));
    return text === undefined ? undefined : MachineEnd.parse(JSON.parse(text));
  } catch (cause) {
    throw new SbxError("fleet.store.unavailable", `the file of the end of machine ${id} cannot be read`, {
      cause,
    });
  }
}

/** @throws {SbxError} `fleet.machine.ended`: the machine was retired or revoked */
export async function requireInFleet(dir: string, id: string): Promise<void> {
  const end = await endOf(dir, id);
  if (!end) return;
  throw new SbxError("fleet.machine.ended", `machine ${id} was ${end.kind} on ${end.at}`, {
    hint: "a machine comes back with a new key: an administrator makes a token for it",
  });
}

/**
 * Ends a machine and the homes that it certified; its records stay, and its name is free. A
 * retired one may still be revoked.
 *
 * @returns the machines that ended now
 */
export async function endMachine(
  dir: string,
  machine: Machine,
  end: Omit<MachineEnd, "at">,
): Promise<Machine[]> {
  const ended: Machine[] = [];
  const endOne = async (each: Machine) => {
    const before = await endOf(dir, each.machine_id);
    if (before?.kind === "revoked" || before?.kind === end.kind) return;
    const text = JSON.stringify(MachineEnd.parse({ ...end, at: new Date().toISOString() }));
    await writeAtomic(endPath(dir, each.machine_id), `${text}\n`);
    await logMachine(dir, each);
    await StoreLog.of(dir).append({ kind: "ended", machine_id: each.machine_id, end: end.kind });
    ended.push(each);
  };
  // It first: from then on it certifies no home that the list would lack.
  await endOne(machine);
  for (const each of await listMachines(dir)) if (each.of === machine.machine_id) await endOne(each);
  if (ended.includes(machine)) await freeName(dir, machine);
  return ended;
}

/** Gives a machine's name back, unless another machine has it by now. */
async function freeName(dir: string, { name, machine_id }: Machine): Promise<void> {
  const path = namePath(dir, name);
  const text = await ifFound(Deno.readTextFile(path));
  if (text !== undefined && JSON.parse(text).machine_id === machine_id) await ifFound(Deno.remove(path));
}

/** Lists all machines, by name. */
export async function listMachines(dir: string): Promise<Machine[]> {
  const machines: Machine[] = [];
  try {
    for await (const { name } of Deno.readDir(storePaths(dir).machines)) {
      const machine = name.endsWith(".json")
        ? await findMachine(dir, name.slice(0, -".json".length))
        : undefined;
      if (machine) machines.push(machine);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return machines.sort((a, b) =>
    a.name < b.name ? -1 : a.name > b.name ? 1 : a.machine_id < b.machine_id ? -1 : 1
  );
}

/** A machine's last report about itself: version of sbx, and active versions. */
export async function lastAlive(
  dir: string,
  { machine_id }: Pick<Machine, "machine_id">,
): Promise<{ told_at?: string; sbx?: string; in_force?: Record<string, string> }> {
  const report = await readReport(reportPath(dir, machine_id, { kind: "alive" }));
  if (report?.body.kind !== "alive") return {};
  const { sbx, in_force } = report.body;
  return { told_at: report.made_at, sbx, ...(in_force && { in_force }) };
}

/** Key of a machine. */
export function keyOf({ public_key }: Machine): PublicKey {
  return parsePublicKeys(public_key, "the machine")[0];
}

function namePath(dir: string, name: string): string {
  return join(storePaths(dir).names, `${blake3(name)}.json`);
}

function endPath(dir: string, id: string): string {
  return join(storePaths(dir).machines, `${id}.ended.json`);
}

function machinePath(dir: string, id: string): string {
  return join(storePaths(dir).machines, `${id}.json`);
}
