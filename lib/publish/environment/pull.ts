/**
 * Images from registries, folders and archives, by skopeo: their manifests, and their layers
 * into the folder that all share.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import type { Arch } from "../../base/arch/mod.ts";
import { freeBytes } from "../../base/disk/mod.ts";
import { asSbxError, ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { formatBytes, type ProgressSink } from "../../base/progress/mod.ts";
import { hostEnvironment } from "../../base/proxy/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { blobPath, layersDir, type Reference } from "../../release/environment/mod.ts";
import {
  type AttachedSignature,
  CLAIMS_MAX,
  requireSignature,
  signatureError,
  SignatureManifest,
  signaturesIn,
  type Signers,
  type VerifiedSignature,
} from "./signature.ts";
import { archNames, requireTools, run, runText } from "../image/mod.ts";
import { authFile, findLogin } from "./docker_config.ts";
import { download } from "./download.ts";
import { invalid, noRoom, platformName, PLATFORMS_SHOWN, pullError, tooLong } from "./pull_error.ts";

/** Most `bytes` of a manifest, and of a configuration. */
export const MANIFEST_MAX = 4 * 1024 ** 2, CONFIG_MAX = 8 * 1024 ** 2;
/** Most layers of an image, and most `bytes` of them together, as they are downloaded. */
export const LAYERS_MAX = 256, DOWNLOAD_MAX = 32 * 1024 ** 3;
/** Room that stays free on the disk, in `bytes`; a download that leaves less than half of it is stopped. */
export const SPARE_BYTES = 256 * 1024 ** 2;
/** `bytes` that a download may be larger than its manifest says: blocks of the disk, and manifests. */
const SLACK_BYTES = 64 * 1024 ** 2;
/** Where containers' tools look for the rules of signatures. */
const POLICIES = [".config/containers/policy.json", "/etc/containers/policy.json"];
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/;

const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/);
const Descriptor = z.object({
  mediaType: z.string().optional(),
  digest: Digest,
  size: z.int().min(0),
});
const Manifest = z.object({
  config: Descriptor,
  layers: z.array(z.object({ ...Descriptor.shape, urls: z.array(z.unknown()).nullish() })),
});
const Index = z.object({
  manifests: z.array(z.object({
    ...Descriptor.shape,
    platform: z.object({
      architecture: z.string(),
      os: z.string(),
      variant: z.string().optional(),
    }).optional(),
  })),
});

/** An image for one architecture, by its digests. */
export interface FoundImage {
  /** of its manifest */
  digest: string;
  /** of the list of architectures that names it */
  indexDigest?: string;
  config: z.infer<typeof Descriptor>;
  /** the lowest first */
  layers: z.infer<typeof Descriptor>[];
}

/** Most `bytes` of an image's signatures with their manifest. */
const SIGNATURES_BYTES = 8 * 1024 ** 2;

/** Runs skopeo for images of one architecture. */
export class Puller {
  readonly #home: Pick<Home, "dir">;
  readonly #arch: Arch;
  readonly #work: string;
  readonly #signal?: AbortSignal;
  /** of the registry that was asked last */
  #login?: { repository: string; path: Promise<string | undefined> };
  /** why there is no login; public images need none */
  #loginProblem?: SbxError;

  /** @param work folder of its own */
  constructor(home: Pick<Home, "dir">, arch: Arch, work: string, signal?: AbortSignal) {
    this.#home = home;
    this.#arch = arch;
    this.#work = work;
    this.#signal = signal;
  }

  /** @throws {SbxError} `image.tool_missing` */
  async version(): Promise<string> {
    await requireTools({ skopeo: "skopeo" });
    return (await runText(["skopeo", "--version"], { doing: "asking skopeo for its version" })).trim();
  }

  /**
   * Finds the image that a reference names. Of an archive and a Docker daemon it is
   * known once {@linkcode pull} has it.
   *
   * @throws {SbxError} `environment.not_found`, `environment.unauthorized`, `environment.pull_failed`,
   * `environment.digest`, `environment.platform`, `environment.manifest.invalid`
   */
  async find(reference: Reference): Promise<FoundImage | undefined> {
    if (reference.kind === "docker-archive" || reference.kind === "docker-daemon") return undefined;
    const { value, digest } = await this.#manifest(reference, reference.source);
    if (reference.digest !== undefined && reference.digest !== digest) {
      throw new SbxError(
        "environment.digest",
        `the registry answered ${reference.canonical} with another manifest: ${digest}`,
        { hint: "the registry, or something on the way to it, is not to be trusted; nothing was kept" },
      );
    }
    const index = Index.safeParse(value).data;
    if (!index) return { digest, ...this.#checked(value, reference) };
    const names = archNames(this.#arch);
    const chosen =
      index.manifests.find(({ platform }) =>
        platform?.os === "linux" && platform.architecture === names.debian &&
        (platform.variant === undefined || platform.variant === "v8")
      ) ?? (index.manifests.length === 1 && !index.manifests[0].platform ? index.manifests[0] : undefined);
    if (!chosen) {
      const others = index.manifests.flatMap(({ platform }) =>
        platform && platform.os !== "unknown" ? [platformName(platform.os, platform.architecture)] : []
      );
      throw this.#platformError(
        reference,
        [...new Set(others)].slice(0, PLATFORMS_SHOWN).join(", ") || "no platform",
      );
    }
    if (reference.kind === "oci") {
      const manifest = await this.#localManifest(reference, chosen.digest);
      return { digest: chosen.digest, indexDigest: digest, ...this.#checked(manifest, reference) };
    }
    const own = await this.#manifest(reference, `docker://${reference.repository}@${chosen.digest}`);
    if (own.digest !== chosen.digest) {
      throw new SbxError("environment.digest", `the registry answered ${chosen.digest} with ${own.digest}`, {
        hint: "the registry, or something on the way to it, is not to be trusted; nothing was kept",
      });
    }
    return { digest: chosen.digest, indexDigest: digest, ...this.#checked(own.value, reference) };
  }

  /** Reads the manifest of an image below an index in a folder; skopeo reaches only the index's own. */
  async #localManifest(reference: Reference, digest: string): Promise<unknown> {
    const dir = reference.source.slice("oci:".length).replace(/:[^:/]+$/, "");
    const path = join(dir, "blobs", ...digest.split(":"));
    const { isFile, size } = await Deno.stat(path);
    if (!isFile || size > MANIFEST_MAX) {
      invalid(reference, `its manifest is not a file of at most ${formatBytes(MANIFEST_MAX)}`);
    }
    const bytes = await Deno.readFile(path);
    const actual = digestOf(bytes);
    if (actual === digest) return parsed(reference, bytes);
    throw new SbxError(
      "environment.digest",
      `${reference.canonical} has ${actual} in the place of ${digest}`,
      {
        hint: "the folder is damaged, or not to be trusted; nothing was kept",
      },
    );
  }

  /**
   * Requires a signature of an image of a registry: of the list of architectures that its name leads to,
   * or of the manifest for this one.
   *
   * @throws {SbxError} `environment.signature` (403); as {@linkcode find}
   */
  async requireSigned(
    reference: Reference,
    { digest, indexDigest }: Pick<FoundImage, "digest" | "indexDigest">,
    signers: Signers,
  ): Promise<VerifiedSignature> {
    if (reference.kind !== "registry") {
      throw signatureError(reference, signers.scope, "images of registries are signed, and no others");
    }
    let refusal: unknown;
    for (const each of [indexDigest, digest]) {
      if (each === undefined) continue;
      const attached = await this.#attached(reference, each, signers);
      try {
        return requireSignature(reference, each, attached, signers);
      } catch (error) {
        refusal = attached.length > 0 || refusal === undefined ? error : refusal;
      }
    }
    throw refusal;
  }

  /** Downloads the signatures of a manifest. */
  async #attached(reference: Reference, digest: string, { scope }: Signers): Promise<AttachedSignature[]> {
    const name = `docker://${reference.repository}:sha256-${hexOf(digest)}.sig`;
    const found = await this.#manifest(reference, name).catch((error) => {
      if (error instanceof SbxError && error.code === "environment.not_found") return undefined;
      throw error;
    });
    if (!found) return [];
    const { data, error } = SignatureManifest.safeParse(found.value);
    if (!data) throw signatureError(reference, scope, "its signatures cannot be read", error);
    const signatures = signaturesIn(data);
    if (signatures.length === 0) return [];
    const dir = await Deno.makeTempDir({ dir: this.#work, prefix: "signatures-" });
    const tooLarge = () =>
      signatureError(reference, scope, "its signatures are larger than their manifest says");
    const check = (arrived: number) => Promise.resolve(arrived > SIGNATURES_BYTES ? tooLarge() : undefined);
    const read = async ({ digest, signature }: { digest: string; signature: Uint8Array }) => {
      const path = join(dir, hexOf(digest));
      const { size } = await Deno.stat(path);
      if (size > CLAIMS_MAX) throw signatureError(reference, scope, "its signatures are too large");
      const claims = await Deno.readFile(path);
      if (digestOf(claims) !== digest) throw signatureError(reference, scope, "its signatures are damaged");
      return { claims, signature };
    };
    try {
      return await download(this.#work, check, async (stop) => {
        await this.#skopeo(
          reference,
          `downloading the signatures of ${reference.canonical}`,
          [
            "copy",
            "--quiet",
            ...await this.#sourceOptions(reference, "src-"),
            `docker://${reference.repository}@${found.digest}`,
            `dir:${dir}`,
          ],
          stop,
          ["--insecure-policy"],
        );
        return await Promise.all(signatures.map(read));
      });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  }

  /**
   * Downloads the layers that this home does not have. The stage `pull` counts bytes.
   *
   * @throws {SbxError} as {@linkcode find}; `disk.full`
   */
  async pull(
    reference: Reference,
    image: FoundImage | undefined,
    progress: ProgressSink,
  ): Promise<FoundImage> {
    const missing = image ? await this.#missing(image) : [];
    const bytes = missing.reduce((sum, { size }) => sum + size, 0);
    progress.stage("pull", bytes);
    if (image && missing.length === 0) return image;
    await this.#requireRoom(bytes);
    const oci = join(this.#work, "oci");
    // Its own: no other pull meets a manifest that skopeo is still writing.
    const blobs = join(this.#work, "blobs", "sha256");
    if (image) await this.#lend(image, missing, blobs);
    const source = image && reference.kind === "registry"
      ? `docker://${reference.repository}@${image.digest}`
      : reference.source;
    await Deno.mkdir(join(layersDir(this.#home), "sha256"), { recursive: true, mode: 0o700 });
    // The layers of an archive may be there twice: unpacked with it, and as copies.
    const max = image ? bytes + SLACK_BYTES : 2 * DOWNLOAD_MAX;
    let seen = 0;
    const check = async (arrived: number) => {
      if (arrived > max) return tooLong(reference, max);
      const free = await freeBytes(this.#work);
      if (free < SPARE_BYTES / 2) return noRoom(this.#work, free, SPARE_BYTES);
      const now = Math.min(bytes, arrived);
      if (now > seen) progress.advance(now - seen);
      seen = Math.max(seen, now);
    };
    const { digest, copied } = await download(this.#work, check, async (stop) => {
      await this.#skopeo(reference, `pulling ${reference.canonical}`, [
        "copy",
        "--quiet",
        ...await this.#sourceOptions(reference, "src-"),
        "--dest-shared-blob-dir",
        join(this.#work, "blobs"),
        "--dest-oci-accept-uncompressed-layers",
        source,
        `oci:${oci}:image`,
      ], stop);
      const index = parseJson(await Deno.readTextFile(join(oci, "index.json")));
      const [{ digest }] = Index.parse(index).manifests;
      const path = join(blobs, hexOf(digest));
      const copied = this.#checked(parseJson(await Deno.readTextFile(path)), reference);
      await Deno.remove(path);
      return { digest, copied };
    }).finally(() => this.#keep(blobs));
    if (!image) return { digest, ...copied };
    // Docker's manifest becomes an OCI one: its digest changes, the digests of its parts do not.
    const same = (a: FoundImage["layers"], b: FoundImage["layers"]) =>
      a.map(({ digest }) => digest).join() === b.map(({ digest }) => digest).join();
    if (copied.config.digest !== image.config.digest || !same(copied.layers, image.layers)) {
      throw new SbxError("environment.digest", `${reference.canonical} changed while it was pulled`, {
        hint: "try again",
      });
    }
    return image;
  }

  /** Shows skopeo the blobs of an image that this home has, so that it does not download them. */
  async #lend({ config, layers }: FoundImage, missing: FoundImage["layers"], blobs: string): Promise<void> {
    await Deno.mkdir(blobs, { recursive: true, mode: 0o700 });
    const digests = new Set([config, ...layers].map(({ digest }) => digest));
    for (const { digest } of missing) digests.delete(digest);
    for (const digest of digests) await Deno.link(blobPath(this.#home, digest), join(blobs, hexOf(digest)));
  }

  /** Takes over the blobs that arrived whole: skopeo gives one its name at its end. */
  async #keep(blobs: string): Promise<void> {
    for (const { name, isFile } of await ifFound(Array.fromAsync(Deno.readDir(blobs))) ?? []) {
      if (isFile) await Deno.rename(join(blobs, name), blobPath(this.#home, `sha256:${name}`));
    }
  }

  async #missing({ config, layers }: FoundImage): Promise<FoundImage["layers"]> {
    const all = [config, ...layers];
    const has = await Promise.all(
      all.map(async ({ digest, size }) =>
        (await ifFound(Deno.stat(blobPath(this.#home, digest))))?.size === size
      ),
    );
    return all.filter((_, at) => !has[at]);
  }

  async #requireRoom(bytes: number): Promise<void> {
    const free = await freeBytes(this.#work);
    if (free < bytes + SPARE_BYTES) throw noRoom(this.#work, free, bytes + SPARE_BYTES);
  }

  async #manifest(reference: Reference, source: string): Promise<{ value: unknown; digest: string }> {
    const doing = `looking up ${reference.canonical}`;
    const bytes = await this.#skopeo(reference, doing, [
      "inspect",
      "--raw",
      ...await this.#sourceOptions(reference, ""),
      source,
    ]);
    if (bytes.length > MANIFEST_MAX) {
      invalid(reference, `its manifest has ${bytes.length} bytes, more than ${MANIFEST_MAX}`);
    }
    return { value: parsed(reference, bytes), digest: digestOf(bytes) };
  }

  #checked(value: unknown, reference: Reference): Pick<FoundImage, "config" | "layers"> {
    const { data, error } = Manifest.safeParse(value);
    if (!data) return invalid(reference, "its manifest is of an unknown kind", error);
    const { config, layers } = data;
    if (config.size > CONFIG_MAX) {
      invalid(
        reference,
        `its configuration has ${formatBytes(config.size)}, more than ${formatBytes(CONFIG_MAX)}`,
      );
    }
    if (layers.length > LAYERS_MAX) {
      invalid(reference, `it has ${layers.length} layers, more than ${LAYERS_MAX}`);
    }
    if (layers.some(({ urls }) => urls?.length)) {
      invalid(reference, "a layer of it is kept elsewhere, which sbx does not ask");
    }
    const bytes = layers.reduce((sum, { size }) => sum + size, 0);
    if (bytes > DOWNLOAD_MAX) {
      invalid(reference, `its layers have ${formatBytes(bytes)}, more than ${formatBytes(DOWNLOAD_MAX)}`);
    }
    return { config, layers };
  }

  #platformError({ canonical }: Reference, others: string): SbxError {
    return new SbxError(
      "environment.platform",
      `${canonical} is not for linux/${archNames(this.#arch).debian}, but for ${others}`,
      {
        hint: "choose another image, or the architecture of the VM: --arch",
      },
    );
  }

  /** @throws {SbxError} `environment.platform`: the configuration names another one */
  requirePlatform(
    reference: Reference,
    { os, architecture }: { os?: unknown; architecture?: unknown },
  ): void {
    if (os === "linux" && architecture === archNames(this.#arch).debian) return;
    throw this.#platformError(reference, platformName(String(os), String(architecture)));
  }

  async #sourceOptions(reference: Reference, prefix: "" | "src-"): Promise<string[]> {
    const { kind, registry, repository } = reference;
    if (kind !== "registry") return [];
    // As Docker does: a registry on this machine may speak plain HTTP.
    const plain = LOOPBACK.test(registry!) ? [`--${prefix}tls-verify=false`] : [];
    const known = this.#login;
    const login = known && known.repository === repository
      ? known
      : this.#login = { repository: repository!, path: this.#loginPath(reference) };
    const folder = Deno.env.get("DOCKER_CONFIG");
    const path = await login.path ?? (folder ? join(folder, "config.json") : undefined);
    const auth = path === undefined ? [] : [`--${prefix}authfile`, path];
    return [...plain, ...auth, `--${prefix}cert-dir`, join(this.#work, "certs")];
  }

  /** The file with the login for skopeo, which finds none in Docker's store of credentials. */
  async #loginPath(reference: Reference): Promise<string | undefined> {
    const login = await findLogin(reference).catch((error) => {
      this.#loginProblem = asSbxError(error, "reading Docker's logins");
      return undefined;
    });
    if (!login) return undefined;
    const path = join(this.#work, "auth.json");
    await Deno.remove(path).catch(ignore("it is made now"));
    await Deno.writeTextFile(path, authFile(login), { mode: 0o600, createNew: true });
    return path;
  }

  async #skopeo(
    reference: Reference,
    doing: string,
    args: string[],
    stop?: AbortSignal,
    policy?: string[],
  ): Promise<Uint8Array> {
    await requireTools({ skopeo: "skopeo" });
    const env = await hostEnvironment();
    await Deno.mkdir(join(this.#work, "certs"), { recursive: true, mode: 0o700 });
    const authorities = env.NODE_EXTRA_CA_CERTS;
    if (authorities) await Deno.copyFile(authorities, join(this.#work, "certs", "host.crt"));
    const arch = archNames(this.#arch).debian;
    const command = [
      "skopeo",
      "--override-os",
      "linux",
      "--override-arch",
      arch,
      ...policy ?? await policyOptions(),
      ...args,
    ];
    try {
      return await run(command, {
        doing,
        env: { ...env, TMPDIR: this.#work },
        input: new Uint8Array(),
        signal: AbortSignal.any([this.#signal, stop].filter((signal) => signal !== undefined)),
      });
    } catch (error) {
      if (!(error instanceof SbxError) || error.code !== "image.tool_failed") throw error;
      const refusal = pullError(reference, doing, String(error.cause));
      throw refusal.code === "environment.unauthorized" ? this.#loginProblem ?? refusal : refusal;
    }
  }
}

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

function hexOf(digest: string): string {
  return digest.slice("sha256:".length);
}

function parsed(reference: Reference, bytes: Uint8Array): unknown {
  try {
    return parseJson(new TextDecoder().decode(bytes));
  } catch (cause) {
    return invalid(reference, "its manifest is not JSON", cause);
  }
}

/** The machine's own rules for signatures, if it has any. */
async function policyOptions(): Promise<string[]> {
  const home = Deno.env.get("HOME") ?? "/root";
  for (const path of POLICIES) {
    if (await ifFound(Deno.stat(path.startsWith("/") ? path : join(home, path)))) return [];
  }
  return ["--insecure-policy"];
}
