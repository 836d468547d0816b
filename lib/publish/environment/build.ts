/** From a reference to an environment that VMs boot. */
import { createHash } from "node:crypto";
import { Buffer } from "node:buffer";
import { join, posix } from "node:path";
import { z } from "zod";
import type { Arch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { blake3, blake3File, keyFingerprint } from "../../base/hash/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { removeFolder } from "../../base/home/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { type ProgressSink, silent, type Stage } from "../../base/progress/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { fileError, OBOM, ROOTFS } from "../../release/asset/mod.ts";
import {
  blobPath,
  type Environment,
  type EnvironmentConfig,
  environmentKey,
  findEnvironment,
  getEnvironment,
  holdingEnvironment,
  installEnvironment,
  isCurrentFormat,
  keepingEnvironments,
  makeWorkFolder,
  nameEnvironment,
  noteSignature,
  type Reference,
} from "../../release/environment/mod.ts";
import { throwIfInterrupted } from "../image/mod.ts";
import { environmentObom } from "./obom.ts";
import { PackageFinder } from "./packages.ts";
import { CONFIG_MAX, type FoundImage, Puller } from "./pull.ts";
import type { Signers, VerifiedSignature } from "./signature.ts";
import { refuseLayer } from "./tar.ts";
import { unpackLayers } from "./unpack.ts";

/** Stages of making an environment, weighted by their measured duration. */
export const ENVIRONMENT_STAGES: Stage[] = [
  { name: "look up", weight: 1 },
  { name: "pull", weight: 10 },
  { name: "unpack", weight: 6 },
  { name: "hash", weight: 1 },
];

/** Options for making an environment. */
export interface EnvironmentOptions {
  home: Home;
  arch: Arch;
  progress?: ProgressSink;
  /** stops the work and removes its partial output; layers that arrived whole stay */
  signal?: AbortSignal;
  /** asks the registry even where the reference led to an environment before */
  refresh?: boolean;
  /** called when another process makes the same environment, which this one waits for */
  onWait?: () => void;
  /** whose signature the image needs; absent: none */
  signers?: Signers;
  /** build that the image comes from */
  build?: Environment["provenance"]["build"];
}

/** An environment, and whether it was there before. */
export interface MadeEnvironment {
  environment: Environment;
  isNew: boolean;
}

/**
 * Pulls an image by digest and makes an environment of it, unless this home has it. A reference that this
 * home knows is not looked up again, as with Docker.
 *
 * @throws {SbxError} `environment.*`, `image.tool_missing`, `image.interrupted`, `disk.full`
 */
export async function makeEnvironment(
  reference: Reference,
  options: EnvironmentOptions,
): Promise<MadeEnvironment> {
  const { home, arch, refresh, signers } = options;
  // Images of this name are the ones that were built here, for corp too
  // (docs/design/contracts/03-settings.md §3).
  const isBuilt = reference.kind === "registry" && reference.registry === "localhost";
  const known = refresh ? undefined : await findEnvironment(home, reference.canonical, arch);
  if (known && isCurrentFormat(known) && hasSignature(known, reference, signers)) {
    return { environment: known, isNew: false };
  }
  if (isBuilt) {
    throw new SbxError(
      "environment.not_found",
      `${reference.canonical} comes from no registry: images of that name are built here`,
      {
        hint:
          "sbx image build DIR --tag NAME builds it; a registry of this machine has a port: localhost:5000/…",
      },
    );
  }
  return await keepingEnvironments(home, () => make(reference, options));
}

async function make(
  reference: Reference,
  { home, arch, progress = silent, signal, onWait, build, signers }: EnvironmentOptions,
): Promise<MadeEnvironment> {
  const work = await makeWorkFolder(home);
  try {
    progress.stage("look up");
    const puller = new Puller(home, arch, work, signal);
    const puller_version = await puller.version();
    const found = await puller.find(reference);
    // Before any layer of it is here.
    const signature = signers && await puller.requireSigned(reference, found ?? { digest: "" }, signers);
    // An archive has its digest once its layers are here.
    const image = found ?? await puller.pull(reference, undefined, progress);
    const key = environmentKey(image.digest, arch);
    const made = await holdingEnvironment(home, key, async (): Promise<MadeEnvironment> => {
      const existing = await getEnvironment(home, key).catch(() => undefined);
      if (existing) {
        const environment = signature ? await noteSignature(home, existing, signature) : existing;
        return { environment, isNew: false };
      }
      await puller.pull(reference, image, progress);
      const out = join(work, "out");
      await Deno.mkdir(out, { mode: 0o700 });
      const environment = await unpack(reference, image, {
        home,
        arch,
        out,
        key,
        puller,
        puller_version,
        progress,
        signal,
        build,
        signature,
      });
      throwIfInterrupted(signal);
      await installEnvironment(home, out, environment);
      return { environment, isNew: true };
    }, onWait);
    await nameEnvironment(home, { reference: reference.canonical, arch, key });
    return made;
  } catch (error) {
    throw fileError(error, `making an image of ${reference.canonical}`);
  } finally {
    await removeFolder(work);
  }
}

interface UnpackContext {
  home: Home;
  arch: Arch;
  /** folder for its files */
  out: string;
  key: string;
  puller: Puller;
  puller_version: string;
  progress: ProgressSink;
  signal?: AbortSignal;
  build?: EnvironmentOptions["build"];
  signature?: VerifiedSignature;
}

/** Tests whether an image has the signature that it needs. */
function hasSignature({ provenance }: Environment, { repository }: Reference, signers?: Signers): boolean {
  if (!signers) return true;
  const keys = signers.keys.map(keyFingerprint);
  return (provenance.signatures ?? []).some((each) =>
    each.repository === repository && keys.includes(each.key)
  );
}

/**
 * Requires a signature of an image of a registry without pulling it.
 *
 * @throws {SbxError} `environment.signature`, and as the pull
 */
export async function verifyImage(
  reference: Reference,
  { home, arch, signal, signers }: Pick<EnvironmentOptions, "home" | "arch" | "signal"> & {
    signers: Signers;
  },
): Promise<VerifiedSignature> {
  return await keepingEnvironments(home, async () => {
    const work = await makeWorkFolder(home);
    try {
      const puller = new Puller(home, arch, work, signal);
      return await puller.requireSigned(reference, { digest: reference.digest! }, signers);
    } finally {
      await removeFolder(work);
    }
  });
}

async function unpack(
  reference: Reference,
  image: FoundImage,
  { home, arch, out, key, puller, puller_version, progress, signal, build, signature }: UnpackContext,
): Promise<Environment> {
  const config = await readConfig(home, image);
  puller.requirePlatform(reference, config);
  const finder = new PackageFinder(out);
  const used = configOf(config);
  // As Docker does when a container is made. The path is bytes to Linux.
  const workdir = used.workdir && Buffer.from(used.workdir).toString("latin1");
  const rootfs = join(out, ROOTFS);
  const tree = await unpackLayers(
    image.layers.map(({ digest, size }) => ({ path: blobPath(home, digest), digest, size })),
    rootfs,
    { progress, signal, folder: workdir, watch: (node, path) => finder.watch(node, path) },
  );
  const { size } = await Deno.stat(rootfs);
  progress.stage("hash", size);
  const { hash } = await blake3File(rootfs, (bytes) => progress.advance(bytes));
  const obom = environmentObom({
    arch,
    reference: reference.canonical,
    digest: image.digest,
    rootfsHash: hash,
    generatorVersion: VERSION,
    distribution: finder.distribution(tree),
    packages: finder.packages(tree),
    unread: finder.unread(tree),
  });
  await Deno.writeTextFile(join(out, OBOM), obom, { mode: 0o600 });
  return {
    schema: "sbx.environment.v1",
    key,
    arch,
    reference: reference.canonical,
    digest: image.digest,
    created_at: new Date().toISOString(),
    config: used,
    rootfs: { hash, size },
    obom: { hash: blake3(obom), size: new TextEncoder().encode(obom).length },
    provenance: {
      ...(image.indexDigest && { index_digest: image.indexDigest }),
      config_digest: image.config.digest,
      layers: image.layers.map(({ digest, size }) => ({ digest, size })),
      builder: `sbx ${VERSION}`,
      puller: puller_version,
      ...(signature && { signatures: [signature] }),
      ...(build && { build }),
    },
  };
}

const strings = z.array(z.string()).nullish();
const ImageConfig = z.object({
  os: z.string().optional(),
  architecture: z.string().optional(),
  config: z.object({
    Env: strings,
    WorkingDir: z.string().nullish(),
    User: z.string().nullish(),
    Entrypoint: strings,
    Cmd: strings,
    ExposedPorts: z.record(z.string(), z.unknown()).nullish(),
    Healthcheck: z.unknown().optional(),
    StopSignal: z.string().nullish(),
    Labels: z.record(z.string(), z.unknown()).nullish(),
  }).nullish(),
});
type ImageConfig = z.infer<typeof ImageConfig>;

async function readConfig(home: Home, { config: { digest } }: FoundImage): Promise<ImageConfig> {
  const path = blobPath(home, digest);
  const { size } = await Deno.stat(path);
  if (size > CONFIG_MAX) refuseLayer(`its configuration has ${size} bytes, more than ${CONFIG_MAX}`);
  const bytes = await Deno.readFile(path);
  const actual = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  if (actual !== digest) {
    throw new SbxError(
      "environment.digest",
      `the configuration is ${actual}, and not ${digest} of its manifest`,
      {
        hint: `remove the damaged copy, ${path}, and try again`,
      },
    );
  }
  try {
    return ImageConfig.parse(parseJson(new TextDecoder().decode(bytes)));
  } catch (cause) {
    throw new SbxError("environment.manifest.invalid", "the configuration of the image cannot be read", {
      cause,
      hint: "make the image again with a current tool",
    });
  }
}

/** A name of a variable that a shell knows; others are left out. */
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Label with properties of `devcontainer.json` (containers.dev/implementors/spec, "Image metadata"). */
const METADATA_LABEL = "devcontainer.metadata";

function configOf({ config }: ImageConfig): EnvironmentConfig {
  const env = (config?.Env ?? []).flatMap((text) => {
    const at = text.indexOf("=");
    const name = text.slice(0, at);
    const isUsable = at > 0 && VARIABLE.test(name) && name !== "__proto__" && !text.includes("\0");
    return isUsable ? [[name, text.slice(at + 1)]] : [];
  });
  const { WorkingDir, User, Entrypoint, Cmd, ExposedPorts, Healthcheck, StopSignal, Labels } = config ?? {};
  const metadata = Labels?.[METADATA_LABEL];
  const argv = (words?: string[] | null) => words?.length ? words : undefined;
  return {
    env: Object.fromEntries(env),
    ...(WorkingDir && { workdir: posix.join("/", WorkingDir) }),
    ...(User && { user: User }),
    ...(argv(Entrypoint) && { entrypoint: Entrypoint! }),
    ...(argv(Cmd) && { cmd: Cmd! }),
    ...(ExposedPorts && { exposed_ports: Object.keys(ExposedPorts).sort() }),
    ...(Healthcheck !== undefined && Healthcheck !== null && { healthcheck: Healthcheck }),
    ...(StopSignal && { stop_signal: StopSignal }),
    ...(typeof metadata === "string" && { devcontainer: metadata }),
  };
}
