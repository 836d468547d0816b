/**
 * Tokens with which machines enrol, each good for a number of machines until a
 * time. Only their hashes are kept.
 */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { HEX64 } from "../segment/mod.ts";
import { keepFile, namesIn, storePaths } from "../store.ts";

/** Default and maximum validity of a token, in hours (docs/design/contracts/14-limits.md §14). */
export const TOKEN_HOURS = 24;
export const TOKEN_HOURS_MAX = 24 * 90;
/** Most machines of one token (docs/design/contracts/14-limits.md §14). */
export const TOKEN_MACHINES_MAX = 10_000;
/** Prefix of tokens, by which scanners of secrets find them. */
const PREFIX = "sbxfleet_";

/** A token as a machine sends it. */
export const TokenText = z.string().regex(
  /^sbxfleet_[0-9a-f]{48}$/,
  "must be a token of sbx-admin fleet token",
);

/** Name of a machine, or of a team. */
export const Label = z.string().regex(
  /^[\p{L}\p{N}][\p{L}\p{N} ._@-]{0,63}$/u,
  "must be 1 to 64 letters, digits or . _ @ -",
);

const Terms = z.strictObject({
  expires_at: z.iso.datetime(),
  team: Label.optional(),
  /** the only name with which a machine enrols */
  name: Label.optional(),
  /** number of machines that may enrol with it */
  machines: z.int().min(1).max(TOKEN_MACHINES_MAX).default(1),
});
export type TokenTerms = z.output<typeof Terms>;

export interface TokenOptions {
  hours?: number;
  team?: string;
  name?: string;
  machines?: number;
}

/** Makes a token. @throws {SbxError} `fleet.machine.invalid`: a name that no machine or team can have */
export async function makeToken(
  dir: string,
  { hours = TOKEN_HOURS, team, name, machines = 1 }: TokenOptions = {},
): Promise<{ token: string } & TokenTerms> {
  for (const text of [team, name]) if (text !== undefined) parseLabel(text);
  if (name !== undefined && machines > 1) {
    throw new SbxError("fleet.token.invalid", `one machine can have the name "${name}", not ${machines}`, {
      hint: "leave out the name, or make a token for each machine",
    });
  }
  await removeExpired(dir, Date.now());
  const token = PREFIX + crypto.getRandomValues(new Uint8Array(24)).toHex();
  const terms: TokenTerms = {
    expires_at: new Date(Date.now() + hours * 3_600_000).toISOString(),
    machines,
    ...(team !== undefined && { team }),
    ...(name !== undefined && { name }),
  };
  await keepFile(tokenPath(dir, token), new TextEncoder().encode(`${JSON.stringify(terms)}\n`));
  return { token, ...terms };
}

/** Reads the terms of a token that is good now. @throws {SbxError} `fleet.token.invalid` */
export async function termsOf(dir: string, token: string, now: number): Promise<TokenTerms> {
  const text = await Deno.readTextFile(tokenPath(dir, token)).catch(() => undefined);
  const terms = text === undefined ? undefined : Terms.safeParse(parse(text)).data;
  if (!terms || Date.parse(terms.expires_at) < now) throw badToken();
  return terms;
}

/**
 * Takes one of a token's places for a machine; a machine that has one takes no second. The
 * last one makes the token unknown.
 *
 * @throws {SbxError} `fleet.token.invalid`: all places are taken
 */
export async function takePlace(
  dir: string,
  token: string,
  { machines }: Pick<TokenTerms, "machines">,
  machineId: string,
): Promise<void> {
  const path = tokenPath(dir, token);
  for (let place = 1; place <= machines; place++) {
    const claim = `${path}.used-${place}`;
    // Read first: a write for each place that is taken would be thousands of them, each synced to the disk.
    let owner = await ifFound(Deno.readTextFile(claim));
    if (owner === undefined) {
      // A link to an existing name fails: of two machines at once, one has the place.
      const isMine = await keepFile(claim, new TextEncoder().encode(machineId));
      owner = isMine ? machineId : await ifFound(Deno.readTextFile(claim));
    }
    if (owner !== machineId) continue;
    // Claims stay until the token expires: a machine that read the terms before gets no place that was taken.
    if (place === machines) await Deno.remove(path).catch(ignore("another machine removed it"));
    return;
  }
  throw badToken();
}

/** Removes expired tokens and their claims. */
async function removeExpired(dir: string, now: number): Promise<void> {
  const folder = storePaths(dir).tokens;
  const names = await namesIn(folder);
  for (const name of names) {
    const hash = name.slice(0, 64);
    const path = join(folder, name);
    if (!HEX64.test(hash)) continue;
    const isOver = name.endsWith(".json")
      ? Date.parse(
        Terms.safeParse(parse(await Deno.readTextFile(path).catch(() => ""))).data?.expires_at ?? "",
      ) <
        now
      // A claim of a token that is used up, or was removed just now.
      : !names.includes(`${hash}.json`) && now - (await timeOf(path)) > TOKEN_HOURS_MAX * 3_600_000;
    if (isOver) await Deno.remove(path).catch(ignore("another receiver removed it"));
  }
}

async function timeOf(path: string): Promise<number> {
  return (await Deno.stat(path).catch(() => undefined))?.mtime?.getTime() ?? Date.now();
}

/** @throws {SbxError} `fleet.machine.invalid` */
function parseLabel(text: string): string {
  const parsed = Label.safeParse(text);
  if (parsed.success) return parsed.data;
  throw new SbxError("fleet.machine.invalid", `"${text}" ${parsed.error.issues[0].message}`);
}

function tokenPath(dir: string, token: string): string {
  return join(storePaths(dir).tokens, `${blake3(token)}.json`);
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
