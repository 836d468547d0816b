import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import {
  type ChannelIndex,
  type ChannelManifest,
  INDEX_NAME,
  type ManifestRecord,
  parseChannelManifest,
  parseIndex,
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
 * A publisher's workspace: the index, the folder of each release, and `keys/` with what signs them. Changes are written
 * at once; nothing is public before `publishTree`.
 */
export class Workspace {
  private constructor(readonly dir: string, readonly index: ChannelIndex) {}

  /** @throws {SbxError} `release.workspace.not_found`, `release.invalid` */
  static async open(dir: string): Promise<Workspace> {
    const path = join(dir, INDEX_NAME);
    return new Workspace(dir, parseIndex(await readFile(path, dir), path));
  }

  /**
   * Works on a workspace while no other process does: two that add at once would each write an index without the other's.
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
