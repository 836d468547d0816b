/** A build in its VM, and the image that comes out of it. */
import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import { z } from "zod";
import { freeBytes } from "../../base/disk/mod.ts";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { type Home, removeFolder } from "../../base/home/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { formatBytes, type ProgressSink, silent, type Stage } from "../../base/progress/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import {
  blobPath,
  buildName,
  type Environment,
  findEnvironment,
  isCurrentFormat,
  keepingEnvironments,
  makeWorkFolder,
  nameEnvironment,
  parseReference,
  type Reference,
} from "../../release/environment/mod.ts";
import {
  CONFIG_MAX,
  DOWNLOAD_MAX,
  ENVIRONMENT_STAGES,
  LAYERS_MAX,
  makeEnvironment,
  MANIFEST_MAX,
  SPARE_BYTES,
} from "../environment/mod.ts";
import { throwIfInterrupted } from "../image/mod.ts";
import { archiveOf, type BuildInputs, type Context, contextBytes } from "./context.ts";
import { featuresConfig, GUEST_PATHS, SCRIPT } from "./guest.ts";
import { type Login, loginFile, type Secret } from "./secret.ts";

/** Stages after the build itself, weighted by their measured duration. */
export const BUILD_STAGES: Stage[] = [{ name: "fetch", weight: 6 }, ...ENVIRONMENT_STAGES];

/** Longest time of a step that is not the build itself, in `s`. */
const STEP_SECONDS = 3600;
/** Most images that a build's record names. */
const BASES_MAX = 100;
/** Most characters of a line of output that may name an image. */
const LINE_MAX = 4096;

/** A VM that can build. */
export interface BuildVm {
  id: string;
  name: string;
  run(command: string[], timeoutSeconds: number): Promise<{ code: number; stdout: string; stderr: string }>;
  /** Runs a program, whose output the person sees. @param see gets the output too @returns its exit code */
  follow(command: string[], see: (text: string) => void): Promise<number>;
  upload(path: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  download(path: string): Promise<{ body: AsyncIterable<Uint8Array> }>;
}

/** A build. */
export interface BuildPlan extends Omit<BuildInputs, "secrets"> {
  context: Context;
  key: string;
  /** name of the image */
  reference: Reference;
  secrets: Secret[];
  /** at registries of base images and features */
  logins: Login[];
  /** looks for newer base images */
  pull?: boolean;
}

/** A base image, as the VM reports it. */
export type Base = NonNullable<Environment["provenance"]["build"]>["bases"][number];

/** Places and reports of a build. */
interface BuildOptions {
  home: Home;
  progress?: ProgressSink;
  signal?: AbortSignal;
  /** called once the build itself is done */
  onBuilt?: () => void;
  /** refuses base images, and adds the signatures that it verified */
  checkBases?: (bases: Base[]) => Promise<Base[]>;
}

/** Name of the VM that builds the images of a folder: no other folder's build gets into its cache. */
export function buildVmName(dir: string): string {
  const hash = createHash("sha256").update(dir).digest("hex").slice(0, 8);
  return ["builder", nameOf(dir).slice(0, 32), hash].filter(Boolean).join("-").replaceAll(".", "-");
}

/** The folder's name as the name of an image. */
function nameOf(dir: string): string {
  return basename(dir).toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-+|-+$/g, "");
}

/**
 * Name of a built image, of this machine: `localhost/NAME:TAG`.
 *
 * @param tag as the person wrote it; default the folder's name
 * @throws {SbxError} `environment.reference.invalid`
 */
export function tagReference(dir: string, tag?: string): Reference {
  const name = tag ?? (nameOf(dir) || "image");
  if (name.includes("@")) {
    throw new SbxError("environment.reference.invalid", `"${name}" is not a name for a new image`, {
      hint: "write NAME or NAME:TAG: its digest comes from its content",
    });
  }
  return parseReference(name.startsWith("localhost/") ? name : `localhost/${name}`);
}

/** The environment that the same inputs made before. It gets the name of this build. */
export async function findBuild(
  home: Home,
  { key, arch, reference }: Pick<BuildPlan, "key" | "arch" | "reference">,
): Promise<Environment | undefined> {
  const any = await findEnvironment(home, buildName(key), arch);
  const found = any && isCurrentFormat(any) ? any : undefined;
  if (found) await nameBuild(home, reference, found);
  return found;
}

async function nameBuild(
  home: Home,
  { repository, canonical }: Reference,
  { key, arch, digest }: Environment,
) {
  for (const reference of [canonical, `${repository}@${digest}`]) {
    await nameEnvironment(home, { reference, arch, key });
  }
}

/**
 * Builds an image in a VM and makes an environment of it.
 *
 * @returns the environment, or the exit code of a build that failed
 * @throws {SbxError} `build.*`, `environment.*`, `disk.full`, `image.interrupted`
 */
export async function runBuild(
  vm: BuildVm,
  plan: BuildPlan,
  options: BuildOptions,
): Promise<{ environment: Environment } | { exitCode: number }> {
  try {
    return await build(vm, plan, options);
  } catch (error) {
    // Whatever an interrupt broke first.
    throwIfInterrupted(options.signal);
    throw error;
  }
}

async function build(
  vm: BuildVm,
  plan: BuildPlan,
  { home, progress = silent, signal, onBuilt, checkBases = (bases) => Promise.resolve(bases) }: BuildOptions,
): Promise<{ environment: Environment } | { exitCode: number }> {
  const { context, key, arch, reference, secrets, logins, target, args, pull } = plan;
  const script = async (phase: string, ...words: string[]) => {
    const { code, stdout, stderr } = await vm.run(
      ["sh", "-c", SCRIPT, "sbx-build", phase, ...words],
      STEP_SECONDS,
    );
    throwIfInterrupted(signal);
    if (code === 0) return stdout;
    throw new SbxError("build.failed", `the VM "${vm.name}" failed at "${phase}": ${lastLine(stderr)}`, {
      cause: stderr,
      hint: `sbx delete ${vm.name} removes it with its cache, and the next build makes another one`,
    });
  };
  await script("setup", loginFile(logins), ...secrets.flatMap(({ id, ref }) => [id, ref]));
  const { features } = context;
  await requireRoom(home, contextBytes(context) + (features ? contextBytes(features.files) : 0));
  await vm.upload(GUEST_PATHS.dockerfile, bytesOf(context.dockerfile));
  await vm.upload(GUEST_PATHS.archive, archiveOf(context));
  if (features) {
    await vm.upload(GUEST_PATHS.features, archiveOf(features.files));
    await vm.upload(GUEST_PATHS.featuresConfig, bytesOf(featuresConfig(features, { target, args })));
  }
  throwIfInterrupted(signal);
  const bases = new BaseNames();
  const mounts = secrets.flatMap(({ id }) => ["--secret", `id=${id},src=${GUEST_PATHS.secret(id)}`]);
  const words = features ? ["features", features.config, ...mounts] : [
    "build",
    `--pull=${pull ? "always" : "missing"}`,
    ...target === undefined ? [] : ["--target", target],
    ...Object.entries(args).flatMap(([name, value]) => ["--build-arg", `${name}=${value}`]),
    ...mounts,
  ];
  const exitCode = await vm.follow(
    ["sh", "-c", SCRIPT, "sbx-build", ...words],
    (text) => bases.see(text),
  );
  throwIfInterrupted(signal);
  if (exitCode !== 0) {
    await script("tidy");
    return { exitCode };
  }
  onBuilt?.();
  const signed = await checkBases(basesOf(await script("bases", ...bases.names)));
  const manifest = await script("push");
  const environment = await keepingEnvironments(home, async () => {
    const work = await makeWorkFolder(home);
    try {
      const layout = await fetchImage(vm, manifest, { home, work, progress, signal });
      const source = `oci:${layout}:${LAYOUT_TAG}`;
      const made = await makeEnvironment({ kind: "oci", canonical: reference.canonical, source }, {
        home,
        arch,
        progress,
        signal,
        refresh: true,
        build: {
          key,
          vm: vm.id,
          dockerfile: context.name,
          ...target !== undefined && { target },
          args: Object.keys(args).sort(),
          bases: signed,
        },
      });
      await script("tidy");
      return made.environment;
    } finally {
      await removeFolder(work);
    }
  });
  await nameEnvironment(home, { reference: buildName(key), arch, key: environment.key });
  await nameBuild(home, reference, environment);
  return { environment };
}

/** Names of base images in the output of buildah. */
class BaseNames {
  readonly #names = new Set<string>();
  #line = "";

  see(text: string): void {
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop()!.slice(0, LINE_MAX);
    for (const line of lines) {
      const name = /^(?:\[\d+\/\d+\] )?STEP \d+\/\d+: FROM ([\w./:@-]{1,512})(?: AS .*)?$/i.exec(line.trim())
        ?.[1];
      if (name && this.#names.size < BASES_MAX) this.#names.add(name);
    }
  }

  get names(): string[] {
    return [...this.#names];
  }
}

/** Lines of a name and a digest; names of earlier stages have no digest. */
function basesOf(text: string): Base[] {
  return text.split("\n").slice(0, BASES_MAX).flatMap((line) => {
    const [reference, digest = ""] = line.split("\t");
    return /^sha256:[0-9a-f]{64}$/.test(digest) ? [{ reference, digest }] : [];
  });
}

const Descriptor = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  size: z.int().min(0),
  mediaType: z.string().max(256).optional(),
});
type Descriptor = z.infer<typeof Descriptor>;
const Manifest = z.object({ config: Descriptor, layers: z.array(Descriptor).max(LAYERS_MAX) });

/** Tag of the image in the layout that it is fetched into. */
const LAYOUT_TAG = "built";

/**
 * Fetches an image from a VM into a layout, without the layers that this home has. Each byte of it may be
 * hostile: sizes are limits, digests are checked, and no name of a file comes from the VM.
 */
async function fetchImage(
  vm: BuildVm,
  text: string,
  { home, work, progress, signal }: {
    home: Home;
    work: string;
    progress: ProgressSink;
    signal?: AbortSignal;
  },
): Promise<string> {
  const dir = join(work, "layout");
  const folder = join(dir, "blobs", "sha256");
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const { config, layers } = parseManifest(text);
  const fetched = (descriptor: Descriptor, max: number) => {
    if (descriptor.size > max) throw invalid(`a part of it has ${formatBytes(descriptor.size)}`);
    return fetchBlob(vm, descriptor, folder, progress, signal);
  };
  const bytes = layers.reduce((sum, { size }) => sum + size, 0);
  if (bytes > DOWNLOAD_MAX) throw invalid(`its layers have ${formatBytes(bytes)}`);
  const missing: Descriptor[] = [];
  for (const layer of new Map(layers.map((layer) => [layer.digest, layer])).values()) {
    const has = await ifFound(Deno.stat(blobPath(home, layer.digest)));
    if (has?.size === layer.size) await Deno.link(blobPath(home, layer.digest), join(folder, hexOf(layer)));
    else missing.push(layer);
  }
  const missingBytes = missing.reduce((sum, { size }) => sum + size, 0);
  await requireRoom(home, 2 * missingBytes);
  progress.stage("fetch", missingBytes);
  await fetched(config, CONFIG_MAX);
  for (const layer of missing) await fetched(layer, DOWNLOAD_MAX);
  await Deno.writeTextFile(join(dir, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  const manifest = new TextEncoder().encode(text);
  const hex = createHash("sha256").update(manifest).digest("hex");
  await Deno.writeFile(join(folder, hex), manifest);
  const own = {
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    digest: `sha256:${hex}`,
    size: manifest.length,
    annotations: { "org.opencontainers.image.ref.name": LAYOUT_TAG },
  };
  await Deno.writeTextFile(join(dir, "index.json"), JSON.stringify({ schemaVersion: 2, manifests: [own] }));
  return dir;
}

async function fetchBlob(
  vm: BuildVm,
  { digest, size }: Descriptor,
  folder: string,
  progress: ProgressSink,
  signal?: AbortSignal,
): Promise<void> {
  const hex = hexOf({ digest });
  using file = await Deno.open(join(folder, hex), { write: true, create: true, truncate: true, mode: 0o600 });
  const hash = createHash("sha256");
  let received = 0;
  const { body } = await vm.download(GUEST_PATHS.blob(hex));
  for await (const piece of body) {
    throwIfInterrupted(signal);
    received += piece.length;
    if (received > size) break;
    hash.update(piece);
    await writeAll(file, piece);
    progress.advance(piece.length);
  }
  if (received !== size || `sha256:${hash.digest("hex")}` !== digest) {
    throw new SbxError("environment.digest", `"${vm.name}" gave other bytes than ${digest}`, {
      hint: `nothing was kept; sbx delete ${vm.name} removes the VM, and the next build makes another one`,
    });
  }
}

function hexOf({ digest }: Pick<Descriptor, "digest">): string {
  return digest.slice("sha256:".length);
}

function parseManifest(text: string): z.output<typeof Manifest> {
  if (text.length > MANIFEST_MAX) throw invalid(`its manifest has ${formatBytes(text.length)}`);
  try {
    return Manifest.parse(parseJson(text));
  } catch (cause) {
    throw invalid("its manifest cannot be read", cause);
  }
}

function invalid(reason: string, cause?: unknown): SbxError {
  return new SbxError("environment.manifest.invalid", `the built image was refused: ${reason}`, {
    cause,
    hint: "look at the Dockerfile: its steps are root in the VM that builds",
  });
}

async function requireRoom({ dir }: Home, bytes: number): Promise<void> {
  const free = await freeBytes(dir);
  if (free >= bytes + SPARE_BYTES) return;
  throw new SbxError(
    "disk.full",
    `${dir} has ${formatBytes(free)} free, and the build needs ${formatBytes(bytes + SPARE_BYTES)}`,
    { hint: "free some space: sbx image gc removes images and layers that no VM uses" },
  );
}

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text);
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.slice(0, 400) ?? "";
}
