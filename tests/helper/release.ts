/** A release graph in memory: what a publisher signs, and a server that gives it out. */
import { join } from "node:path";
import {
  type ChannelIndex,
  type ChannelManifest,
  checkChannel,
  type CheckedChannel,
  digestBytes,
  type Fetch,
  generateSigningKey,
  type HmacKey,
  INDEX_PAYLOAD_TYPE,
  type ManifestRecord,
  parseHmacKeys,
  parseSigningKey,
  type ProfileEntry,
  type ReleaseKeys,
  ReleaseMemory,
  type SigningKey,
  signPayload,
  signRecord,
  type Status,
} from "../../lib/release/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";

/** Address of the index of a {@linkcode Publisher}. */
export const INDEX_URL = new URL("https://releases.example/sbx/channels.json");
/** Time of the graph's first index. */
export const EPOCH = Date.UTC(2026, 10, 25, 3);
export const DAY = 86_400_000;

/** An HMAC key of 32 equal bytes. */
export function hmacKey(id = "k1", byte = 0x11): HmacKey {
  return parseHmacKeys(`${id}:${byte.toString(16).padStart(2, "0").repeat(32)}\n`, "keys")[0];
}

export async function signingKey(): Promise<SigningKey> {
  return await parseSigningKey(await generateSigningKey(), "key");
}

/** A profile that a release contains, and the hashes that it pins; fixed ones where a test names none. */
export interface ReleasedProfile {
  id: string;
  revision: string;
  kernel?: string;
  initrd?: string;
  rootfs?: string;
  /** of a part that this sbx does not know yet */
  layer?: string;
}

/** A profile document that pins boot files. */
export function profileDocument(
  {
    id,
    revision,
    kernel = "0".repeat(64),
    initrd = "1".repeat(64),
    rootfs = "2".repeat(64),
    layer,
  }: ReleasedProfile,
): string {
  const pin = (name: string, hash: string) =>
    `[assets.arch.x86_64.${name}]\nname = "${name}"\nurl = "file:///${name}"\nhash = "blake3:${hash}"\nsize = 1\n`;
  return `id = "${id}"\nname = "${id}"\ndescription = ""\nrevision = "${revision}"\n\n` +
    pin("kernel", kernel) + pin("initrd", initrd) + pin("rootfs", rootfs) +
    (layer ? pin("layer", layer) : "");
}

/** Options of {@linkcode Publisher.release}. */
export interface ReleaseOptions {
  status?: Status;
  channel?: string;
  profiles?: ReleasedProfile[];
  min_sbx_version?: string;
  max_sbx_version?: string;
}

/** Publishes releases, and serves what it published. Tests change `files` as a hostile server would. */
export class Publisher {
  readonly files = new Map<string, Uint8Array>();
  index: ChannelIndex = { version: 1, generated_at: new Date(EPOCH).toISOString(), channels: {} };
  fetched: string[] = [];

  constructor(public hmac: HmacKey, public signers: SigningKey[]) {}

  static async start(): Promise<Publisher> {
    return new Publisher(hmacKey(), [await signingKey()]);
  }

  /** Adds a release with one profile, signs the index again, and gives it the next day's time. */
  async release(version: string, options: ReleaseOptions = {}): Promise<ManifestRecord> {
    const { status = "current", channel = "stable", profiles, ...bounds } = options;
    const entries =
      (profiles ?? [{ id: "code", revision: version, rootfs: digestBytes(bytesOf(version)).blake3 }])
        .map((profile): ProfileEntry => {
          const { id, revision } = profile;
          const url = `profiles/${id}-${revision}.toml`;
          const document = bytesOf(profileDocument(profile));
          this.put(url, document);
          const { sha256, blake3 } = digestBytes(document);
          return signRecord<ProfileEntry>(this.hmac, { id, revision, url, sha256, blake3 });
        });
    const manifest: ChannelManifest = { version, channel, packages: [], binaries: [], profiles: entries };
    const url = `assets/${channel}/${version}/manifest.json`;
    const bytes = bytesOf(JSON.stringify(manifest));
    this.put(url, bytes);
    const { sha256, blake3 } = digestBytes(bytes);
    const record = signRecord<ManifestRecord>(this.hmac, {
      version,
      status,
      url,
      digest: { sha256, blake3 },
      ...bounds,
    });
    (this.index.channels[channel] ??= { label: channel, manifests: [] }).manifests.push(record);
    await this.sign();
    return record;
  }

  /** Changes the status of a release. */
  async mark(version: string, status: Status, channel = "stable"): Promise<void> {
    const { manifests } = this.index.channels[channel];
    const at = manifests.findIndex((record) => record.version === version);
    manifests[at] = signRecord(this.hmac, { ...manifests[at], status });
    await this.sign();
  }

  /** Signs the index as it is, a day after the one before. */
  async sign(
    generated_at = new Date(Date.parse(this.index.generated_at) + DAY).toISOString(),
  ): Promise<void> {
    this.index.generated_at = generated_at;
    const bytes = bytesOf(JSON.stringify(this.index));
    this.put("channels.json", bytes);
    const envelope = await signPayload(INDEX_PAYLOAD_TYPE, bytes, this.signers);
    this.put("channels.json.dsse", bytesOf(JSON.stringify(envelope)));
  }

  put(path: string, bytes: Uint8Array): void {
    this.files.set(new URL(path, INDEX_URL).href, bytes);
  }

  get(path: string): Uint8Array {
    return this.files.get(new URL(path, INDEX_URL).href)!;
  }

  /** The files as they are now, for a server that replays them later. */
  snapshot(): Map<string, Uint8Array> {
    return new Map(this.files);
  }

  /** Serves other files from now on. */
  replay(files: Map<string, Uint8Array>): void {
    this.files.clear();
    for (const [url, bytes] of files) this.files.set(url, bytes);
  }

  /** Keys of a client that trusts this publisher. */
  get keys(): ReleaseKeys {
    return { hmac: [this.hmac], trusted: this.signers.map(({ publicKey }) => publicKey) };
  }

  /** As {@linkcode keys}, without public keys: the index as such is not signed then. */
  get hmacOnly(): ReleaseKeys {
    return { hmac: [this.hmac], trusted: [] };
  }

  readonly fetch: Fetch = (url, max) => {
    this.fetched.push(url.href);
    const bytes = this.files.get(url.href);
    if (!bytes) return Promise.reject(new SbxError("fetch.not_found", `nothing at ${url}`));
    if (bytes.length > max) {
      return Promise.reject(new SbxError("fetch.too_large", `${url} is over ${max} bytes`));
    }
    return Promise.resolve(bytes);
  };
}

/** A client with a memory of its own, in a folder that is removed at the end. */
export class Client implements AsyncDisposable {
  private constructor(readonly dir: string, readonly publisher: Publisher, public keys: ReleaseKeys) {}

  static async of(publisher: Publisher, keys = publisher.keys): Promise<Client> {
    return new Client(await Deno.makeTempDir(), publisher, keys);
  }

  get memory(): ReleaseMemory {
    return new ReleaseMemory({ dir: this.dir });
  }

  get memoryPath(): string {
    return join(this.dir, "release", "memory.json");
  }

  /** Checks a channel, on the day of the newest index unless a time is given. */
  check(options: { channel?: string; now?: Date; sbx?: string; downgrade?: { by: string } } = {}) {
    const { channel = "stable", now = new Date(this.publisher.index.generated_at), ...rest } = options;
    const { keys, memory, publisher: { fetch } } = this;
    return checkChannel({ index: INDEX_URL, channel, keys, memory, fetch, now, ...rest }) as Promise<
      CheckedChannel
    >;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.dir, { recursive: true });
  }
}

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

/** Lets a home learn that a release of one profile has a status. */
export async function learn(
  home: { dir: string },
  status: Status,
  profile: ReleasedProfile,
): Promise<void> {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0", { status, profiles: [profile] });
  await publisher.release("2.0.0");
  const { keys, fetch, index } = publisher;
  const memory = new ReleaseMemory(home);
  const now = new Date(index.generated_at);
  await checkChannel({ index: INDEX_URL, channel: "stable", keys, memory, fetch, now });
}
