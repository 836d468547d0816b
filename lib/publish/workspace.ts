/** The workspace of a publisher: made, read and written. */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import {
  type ChannelIndex,
  type ChannelManifest,
  formatTrust,
  generateSigningKey,
  INDEX_NAME,
  type ManifestRecord,
  parseChannelManifest,
  parseIndex,
  parseSigningKey,
} from "../release/mod.ts";

/** HMAC of an unsigned record. No key makes it. */
export const UNSIGNED = "0".repeat(64);
/** Mode of published files and folders, which everybody may read. */
export const FILE_MODE = 0o644, FOLDER_MODE = 0o755;

/** Names within a workspace; none of them is published. */
const LOCK = ".lock";
export const KEYS = "keys", HMAC_KEYS = "hmac.keys", TRUST = "trust.json";

/** Folder of a channel's release, below the workspace and below the published tree. */
export function releaseFolder(channel: string, version: string): string {
  return `assets/${channel}/${version}`;
}

/**
 * A publisher's workspace: the index, the folder of each release, and `keys/` with what signs them. Changes
 * are written at once; nothing is public before `publishTree`.
 */
export class Workspace {
  private constructor(readonly dir: string, readonly index: ChannelIndex) {}

  /** @throws {SbxError} `release.workspace.not_found`, `release.invalid` */
  static async open(dir: string): Promise<Workspace> {
    const path = join(dir, INDEX_NAME);
    return new Workspace(dir, parseIndex(await readFile(path, dir), path));
  }

  /**
   * Works on a workspace while no other process does: two that add at once would each
   * write an index without the other's.
   *
   * @throws {SbxError} as {@linkcode open}, and errors of `work`
   */
  static async change<T>(dir: string, work: (workspace: Workspace) => Promise<T>): Promise<T> {
    await Workspace.open(dir);
    using lock = await Deno.open(join(dir, LOCK), { write: true, create: true, mode: 0o600 });
    await lock.lock(true);
    return await work(await Workspace.open(dir));
  }

  static create(dir: string): Workspace {
    return new Workspace(dir, { version: 1, generated_at: new Date(0).toISOString(), channels: {} });
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  /** @throws {SbxError} `release.not_found` */
  record(channel: string, version: string): ManifestRecord {
    const records = Object.hasOwn(this.index.channels, channel) ? this.index.channels[channel].manifests : [];
    const record = records.find((each) => each.version === version);
    if (record) return record;
    throw new SbxError(
      "release.not_found",
      `there is no release ${version} of channel "${channel}" in ${this.dir}`,
      {
        hint: records.length > 0
          ? `its releases: ${records.map(({ version }) => version).join(", ")}`
          : `its channels: ${Object.keys(this.index.channels).join(", ") || "none"}`,
      },
    );
  }

  async readManifest({ url }: ManifestRecord): Promise<{ manifest: ChannelManifest; bytes: Uint8Array }> {
    const path = this.path(url);
    const bytes = await readFile(path, this.dir);
    return { manifest: parseChannelManifest(bytes, path), bytes };
  }

  /** Writes the index, if it is a valid one. */
  async writeIndex(): Promise<Uint8Array> {
    return await this.#write(INDEX_NAME, this.index, parseIndex);
  }

  /** Writes a manifest, if it is a valid one. */
  async writeManifest({ url }: Pick<ManifestRecord, "url">, manifest: ChannelManifest): Promise<Uint8Array> {
    return await this.#write(url, manifest, parseChannelManifest);
  }

  async #write<T>(
    name: string,
    value: T,
    parse: (bytes: Uint8Array, source: string) => T,
  ): Promise<Uint8Array> {
    const bytes = new TextEncoder().encode(JSON.stringify(value, null, 2) + "\n");
    parse(bytes, name);
    await writeAtomic(this.path(name), bytes, FILE_MODE);
    return bytes;
  }
}

async function readFile(path: string, dir: string): Promise<Uint8Array> {
  try {
    return await Deno.readFile(path);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SbxError("release.workspace.not_found", `${path} is not there`, {
      cause,
      hint: `sbx-admin release init ${dir} makes a workspace`,
    });
  }
}

/** Bytes of a new HMAC key. */
const HMAC_KEY_BYTES = 32;

/** Contents of a new workspace. */
export interface NewWorkspace {
  dir: string;
  /** for the hosts of this administrator, secret */
  hmac_key_file: string;
  signing_key_file: string;
  /** for every host, public */
  trust_file: string;
  key_id: string;
}

/**
 * Makes a workspace with new keys.
 *
 * @throws {SbxError} `release.workspace.conflict`: there is one already
 */
export async function initWorkspace(dir: string, now = new Date()): Promise<NewWorkspace> {
  const keys = join(dir, KEYS);
  for (const path of [join(dir, INDEX_NAME), keys]) {
    if (!await Deno.lstat(path).then(() => true, () => false)) continue;
    throw new SbxError("release.workspace.conflict", `${path} exists already`, {
      hint: "choose an empty folder; a workspace is never overwritten, since its keys would be lost",
    });
  }
  await Deno.mkdir(keys, { recursive: true, mode: 0o700 });
  await Deno.chmod(keys, 0o700);
  const day = now.toISOString().slice(0, 10);
  const pem = await generateSigningKey();
  const { publicKey } = await parseSigningKey(pem, keys);
  const files = {
    hmac_key_file: join(keys, HMAC_KEYS),
    signing_key_file: join(keys, `${day}.pem`),
    trust_file: join(dir, TRUST),
  };
  const secret = crypto.getRandomValues(new Uint8Array(HMAC_KEY_BYTES)).toHex();
  await writeAtomic(files.hmac_key_file, `${day}:${secret}\n`);
  await writeAtomic(files.signing_key_file, pem);
  await writeAtomic(files.trust_file, formatTrust([publicKey]), FILE_MODE);
  await Workspace.create(dir).writeIndex();
  return { dir, ...files, key_id: publicKey.id };
}
