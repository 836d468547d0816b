/** Machines that may send: enrolled by a one-time token, each with its key. */
import { join } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { PublicKey } from "../../release/mod.ts";
import { parsePublicKeys } from "../../release/signing/mod.ts";
import { HEX64 } from "../segment/mod.ts";
import { readReport } from "../ship/mod.ts";
import { keepFile, reportPath, storePaths } from "../store.ts";

/** Default and maximum validity of a token, in hours. */
export const TOKEN_HOURS = 24;
export const TOKEN_HOURS_MAX = 24 * 90;
/** Prefix of tokens, by which scanners of secrets find them. */
const PREFIX = "sbxfleet_";

const label = z.string().regex(
  /^[\p{L}\p{N}][\p{L}\p{N} ._@-]{0,63}$/u,
  "must be 1 to 64 letters, digits or . _ @ -",
);

const Token = z.strictObject({
  expires_at: z.iso.datetime(),
  team: label.optional(),
});

/** A machine's request to enrol. */
export const EnrolRequest = z.strictObject({
  token: z.string().regex(/^sbxfleet_[0-9a-f]{48}$/, "must be a token of sbx-admin fleet token"),
  public_key: z.string().max(1024),
  name: label,
});

export const Machine = z.strictObject({
  schema: z.literal("sbx.fleet-machine.v1"),
  machine_id: z.string().regex(HEX64),
  public_key: z.string(),
  name: label,
  team: label.optional(),
  enrolled_at: z.iso.datetime(),
});
export type Machine = z.infer<typeof Machine>;

/** Makes a token for one machine. Only its hash is kept. */
export async function makeToken(
  dir: string,
  { hours = TOKEN_HOURS, team }: { hours?: number; team?: string } = {},
) {
  if (team !== undefined) parseLabel(team);
  const token = PREFIX + crypto.getRandomValues(new Uint8Array(24)).toHex();
  const expires_at = new Date(Date.now() + hours * 3_600_000).toISOString();
  const text = JSON.stringify({ expires_at, ...(team !== undefined && { team }) }) + "\n";
  await keepFile(tokenPath(dir, token), new TextEncoder().encode(text));
  return { token, expires_at };
}

/**
 * Enrols a machine and consumes its token.
 *
 * @throws {SbxError} `fleet.token.invalid`: unknown, used or expired; `fleet.machine.invalid`
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
  const path = tokenPath(dir, token);
  // Renaming takes the token for this call alone: of two that use it at once, one finds none.
  const taken = `${path}.used-${keys[0].id}`;
  const text = await Deno.rename(path, taken).then(() => Deno.readTextFile(taken)).catch(() => undefined);
  const terms = text === undefined ? undefined : Token.safeParse(parse(text)).data;
  if (!terms || Date.parse(terms.expires_at) < now) throw badToken();
  const machine: Machine = {
    schema: "sbx.fleet-machine.v1",
    machine_id: keys[0].id,
    public_key,
    name,
    ...(terms.team !== undefined && { team: terms.team }),
    enrolled_at: new Date(now).toISOString(),
  };
  const file = machinePath(dir, machine.machine_id);
  // The same key again is the same machine: it lost its own note of it.
  await keepFile(file, new TextEncoder().encode(JSON.stringify(machine, null, 2) + "\n"));
  return machine;
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

function parseLabel(text: string): string {
  const parsed = label.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new SbxError("fleet.machine.invalid", `"${text}" ${parsed.error.issues[0].message}`);
}

function tokenPath(dir: string, token: string): string {
  return join(storePaths(dir).tokens, `${blake3(token)}.json`);
}

function machinePath(dir: string, id: string): string {
  return join(storePaths(dir).machines, `${id}.json`);
}

function badToken(): SbxError {
  return new SbxError("fleet.token.invalid", "the token is unknown, used or expired", {
    hint: "sbx-admin fleet token DIR makes another one",
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
