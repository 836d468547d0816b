/**
 * Conversations of an agent that outlive its VM, for one folder. Their bytes are a guest's: kept as they
 * came, never read on the host, and given to a VM of the same agent and folder alone.
 */
import { basename, join } from "node:path";
import { z } from "zod";
import { readPieces } from "../base/bytes/mod.ts";
import { ifFound, ignore, SbxError } from "../base/error/mod.ts";
import { blake3, blake3File, Digest } from "../base/hash/mod.ts";
import { type Home, makeOwnFolder, removeFolder, writeAtomic } from "../base/home/mod.ts";
import { writeAll } from "../base/wire/mod.ts";
import { PROFILE_ID } from "../config/profile/mod.ts";
import { HISTORIES_MAX, HISTORY_MAX } from "./limit.ts";

/** `bytes` read at once. */
const PIECE = 256 * 1024;
/**
 * Files of a folder, besides the bytes: the record, the lock of their change, and
 * names of bytes that still come.
 */
const RECORD = "record.json", LOCK = "lock", COMING = ".coming-";
/** Age in `ms` after which no command still writes a file that came. */
const LEFT_MS = 24 * 3600 * 1000;

/** Record beside the bytes. */
const KeptHistory = z.strictObject({
  schema: z.literal("sbx.agent_history.v1"),
  agent: z.string().regex(PROFILE_ID),
  /** folder of the host that the agent worked on */
  dir: z.string(),
  /** that folder in the VM */
  place: z.string(),
  /** name of the VM */
  vm: z.string(),
  kept_at: z.string(),
  size: z.int().min(0).max(HISTORY_MAX),
  /** file of the bytes: their blake3 */
  digest: z.string().regex(/^[0-9a-f]{64}$/),
});
export type KeptHistory = z.output<typeof KeptHistory>;

type Place = Pick<Home, "dir">;

const historiesDir = ({ dir }: Place) => join(dir, "history");

function folderOf(home: Place, { agent, dir }: Pick<KeptHistory, "agent" | "dir">): string {
  return join(historiesDir(home), `${agent}-${blake3(dir).slice(0, 32)}`);
}

/** Path of the bytes. */
function bytesPath(home: Place, kept: KeptHistory): string {
  return join(folderOf(home, kept), kept.digest);
}

/**
 * Keeps an agent's conversations, in place of the ones that are kept for this agent and folder.
 *
 * @param bytes of a guest
 * @param options.max most of them
 * @throws {SbxError} `agent.history_limit`: too many bytes, or too many folders
 */
export async function keepHistory(
  home: Place,
  about: Pick<KeptHistory, "agent" | "dir" | "place" | "vm">,
  bytes: AsyncIterable<Uint8Array>,
  { now = new Date(), max = HISTORY_MAX } = {},
): Promise<KeptHistory> {
  const folder = folderOf(home, about);
  const isThere = await ifFound(Deno.lstat(folder)) !== undefined;
  if (!isThere && (await listHistories(home)).length >= HISTORIES_MAX) {
    throw new SbxError("agent.history_limit", `conversations are kept for ${HISTORIES_MAX} folders`, {
      hint: "sbx agent history lists them, --remove removes one",
    });
  }
  await makeOwnFolder(historiesDir(home));
  await makeOwnFolder(folder);
  const coming = join(folder, `${COMING}${crypto.randomUUID()}`);
  try {
    const digest = new Digest({ sha256: false });
    {
      using file = await Deno.open(coming, { write: true, createNew: true, mode: 0o600 });
      for await (const piece of bytes) {
        if (digest.size + piece.length > max) {
          throw new SbxError(
            "agent.history_limit",
            `the conversations of "${about.vm}" are over ${max} bytes`,
            { hint: "leave out --keep-history, and take single files out with sbx cp VM:PATH DIR" },
          );
        }
        digest.update(piece);
        await writeAll(file, piece);
      }
    }
    const { size } = digest;
    const kept: KeptHistory = {
      schema: "sbx.agent_history.v1",
      ...about,
      kept_at: now.toISOString(),
      size,
      digest: digest.digest().blake3,
    };
    await replace(folder, coming, kept);
    return kept;
  } catch (error) {
    await ifFound(Deno.remove(coming));
    // Another VM of the folder may have left its conversations meanwhile.
    if (!isThere) await Deno.remove(folder).catch(ignore("it is theirs"));
    throw error;
  }
}

/**
 * Puts bytes that have come in the place of earlier ones. Of two VMs that end at once, the last one's stay.
 */
async function replace(folder: string, coming: string, kept: KeptHistory): Promise<void> {
  using lock = await Deno.open(join(folder, LOCK), { write: true, create: true, mode: 0o600 });
  await lock.lock(true);
  await Deno.rename(coming, join(folder, kept.digest));
  await writeAtomic(join(folder, RECORD), `${JSON.stringify(kept, null, 2)}\n`);
  for await (const { name } of Deno.readDir(folder)) {
    if (/^[0-9a-f]{64}$/.test(name) && name !== kept.digest || await isLeft(join(folder, name))) {
      await Deno.remove(join(folder, name));
    }
  }
}

/** True for bytes of a command that was killed. */
async function isLeft(path: string): Promise<boolean> {
  if (!basename(path).startsWith(COMING)) return false;
  const mtime = (await ifFound(Deno.stat(path)))?.mtime;
  return mtime !== undefined && mtime !== null && Date.now() - mtime.getTime() > LEFT_MS;
}

/** The conversations that are kept for an agent and a folder. @throws {SbxError} `agent.history_damaged` */
export async function findHistory(home: Place, agent: string, dir: string): Promise<KeptHistory | undefined> {
  const folder = folderOf(home, { agent, dir });
  const kept = await readRecord(folder);
  if (kept === undefined || kept.agent === agent && kept.dir === dir) return kept;
  throw damaged(folder);
}

/** All that are kept, the last ones first. Damaged ones are left out. */
export async function listHistories(home: Place): Promise<KeptHistory[]> {
  const entries = await ifFound(Array.fromAsync(Deno.readDir(historiesDir(home)))) ?? [];
  const all = await Promise.all(
    entries.filter(({ isDirectory }) => isDirectory).map(({ name }) =>
      readRecord(join(historiesDir(home), name)).catch((error) => {
        if (error instanceof SbxError) return undefined;
        throw error;
      })
    ),
  );
  return all.filter((each) => each !== undefined).toSorted((a, b) => b.kept_at.localeCompare(a.kept_at));
}

/** The bytes, checked before the first one. @throws {SbxError} `agent.history_damaged` */
export async function* historyBytes(home: Place, kept: KeptHistory): AsyncGenerator<Uint8Array> {
  const path = bytesPath(home, kept);
  const found = await ifFound(blake3File(path));
  if (found?.hash !== kept.digest || found.size !== kept.size) throw damaged(folderOf(home, kept));
  yield* readPieces(path, PIECE);
}

/** Removes them. @returns false: none were kept */
export async function removeHistory(home: Place, agent: string, dir: string): Promise<boolean> {
  const folder = folderOf(home, { agent, dir });
  if (await ifFound(Deno.lstat(folder)) === undefined) return false;
  await removeFolder(folder);
  return true;
}

async function readRecord(folder: string): Promise<KeptHistory | undefined> {
  const text = await ifFound(Deno.readTextFile(join(folder, RECORD)));
  if (text === undefined) return undefined;
  try {
    return KeptHistory.parse(JSON.parse(text));
  } catch {
    throw damaged(folder);
  }
}

function damaged(folder: string): SbxError {
  return new SbxError("agent.history_damaged", `the conversations in ${folder} are damaged`, {
    hint: "remove that folder",
  });
}
