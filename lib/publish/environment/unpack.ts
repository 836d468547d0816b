/** Layers to one EROFS image, in one pass over each layer. */
import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { readPieces } from "../../base/bytes/mod.ts";
import { ConfinedLauncher, placesOf } from "../../base/confine/mod.ts";
import { freeBytes } from "../../base/disk/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { formatBytes, type ProgressSink, silent } from "../../base/progress/mod.ts";
import { requireTools, throwIfInterrupted, UNPACKERS } from "../image/mod.ts";
import { ErofsWriter } from "./erofs.ts";
import { SPARE_BYTES } from "./pull.ts";
import { readTar, refuseLayer } from "./tar.ts";
import { type Node, Tree } from "./tree.ts";

/** Most `bytes` of all layers, unpacked. */
export const UNPACKED_MAX = 64 * 1024 ** 3;
/** Most unpacked `bytes` for each packed one, of a layer with more than {@linkcode RATIO_FROM} unpacked. */
export const RATIO_MAX = 200;
const RATIO_FROM = 1024 ** 3;
/** Number of bytes after which the room on the disk is looked at again. */
const LOOK_BYTES = 64 * 1024 ** 2;
/** Size of one read of a file, in `bytes`. */
const CHUNK = 1024 * 1024;

/** One layer in a file of the host. */
export interface Layer {
  path: string;
  /** `sha256:` and 64 hexadecimal digits */
  digest: string;
  /** of the file, in `bytes` */
  size: number;
}

/** Gets the content of a file as it is written. */
type Watcher = (piece: Uint8Array) => void;

/** Options for unpacking layers. */
export interface UnpackOptions {
  /** the stage `unpack` counts bytes of the layers' files */
  progress?: ProgressSink;
  signal?: AbortSignal;
  /** @param path names of a file, as the layer has it */
  watch?(node: Node, path: string[]): Watcher | undefined;
  /** path of a folder that the image needs; made if no layer has it */
  folder?: string;
  /** replace the limits of this page in tests */
  limits?: { unpacked?: number; ratioFrom?: number; names?: number };
}

/**
 * Unpacks layers, the lowest first, into a new image. Contents that a later layer
 * replaces stay in it, without a name.
 *
 * @throws {SbxError} `environment.layer.invalid`, `environment.layer.too_large`,
 * `environment.digest`, `disk.full`
 */
export async function unpackLayers(
  layers: Layer[],
  out: string,
  {
    progress = silent,
    signal,
    watch,
    folder,
    limits: { unpacked = UNPACKED_MAX, ratioFrom = RATIO_FROM, names } = {},
  }: UnpackOptions = {},
): Promise<Tree> {
  const tree = new Tree(names);
  progress.stage("unpack", layers.reduce((sum, { size }) => sum + size, 0));
  using file = await Deno.open(out, { write: true, createNew: true, mode: 0o600 });
  const writer = new ErofsWriter(file);
  await writer.begin();
  const room = new Room(out);
  let size = 0;
  for (const [number, layer] of layers.entries()) {
    let ofLayer = 0;
    await requireSize(layer);
    const pieces = counted(unpackedBytes(layer, progress, signal), async (bytes) => {
      throwIfInterrupted(signal);
      size += bytes;
      ofLayer += bytes;
      if (size > unpacked) tooLarge(`its layers have more than ${formatBytes(unpacked)}`);
      if (ofLayer > ratioFrom && ofLayer > layer.size * RATIO_MAX) {
        tooLarge(`a layer of ${formatBytes(layer.size)} unpacks to more than ${RATIO_MAX} times its size`);
      }
      await room.require(bytes);
    });
    for await (const { entry, content } of readTar(pieces)) {
      const node = tree.add(entry, number);
      if (node?.size) await writer.content(node, watched(content(), watch?.(node, entry.path)));
    }
  }
  if (folder !== undefined) tree.ensureFolder(folder);
  await writer.finish(tree.nodes());
  throwIfInterrupted(signal);
  return tree;
}

/** The limits count from the size that the manifest says. */
async function requireSize({ path, size: stated }: Layer): Promise<void> {
  const { size } = await Deno.stat(path);
  if (size !== stated) refuseLayer(`a layer has ${size} bytes, and its manifest says ${stated}`);
}

async function* counted(pieces: AsyncIterable<Uint8Array>, count: (bytes: number) => Promise<void>) {
  for await (const piece of pieces) {
    await count(piece.length);
    yield piece;
  }
}

async function* watched(pieces: AsyncIterable<Uint8Array>, see?: Watcher) {
  for await (const piece of pieces) {
    see?.(piece);
    yield piece;
  }
}

/** Keeps some of the disk free for running VMs. */
class Room {
  readonly #dir: string;
  #left = 0;

  constructor(out: string) {
    this.#dir = dirname(out);
  }

  /** @throws {SbxError} `disk.full` */
  async require(bytes: number): Promise<void> {
    this.#left -= bytes;
    if (this.#left > 0) return;
    this.#left = LOOK_BYTES;
    const free = await freeBytes(this.#dir);
    if (free >= SPARE_BYTES) return;
    throw new SbxError("disk.full", `${this.#dir} has only ${formatBytes(free)} free`, {
      hint: "free some space: sbx image gc removes images and layers that no VM uses",
    });
  }
}

/** Programs that unpack a layer, by the first bytes of its file. */
const MAGIC: [number[], string][] = [[[0x1f, 0x8b], "gzip"], [[0x28, 0xb5, 0x2f, 0xfd], "zstd"]];

/** The unpacked bytes of a layer. Its file is hashed on the way. @throws {SbxError} `environment.digest` */
async function* unpackedBytes(
  { path, digest }: Layer,
  progress: ProgressSink,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  const file = counted(readPieces(path, CHUNK), (bytes) => {
    progress.advance(bytes);
    return Promise.resolve();
  });
  const hashed = watched(file, (piece) => hash.update(piece));
  const tool = await packerOf(path);
  yield* tool ? filtered(tool, hashed, signal) : hashed;
  const actual = `sha256:${hash.digest("hex")}`;
  if (actual === digest) return;
  throw new SbxError(
    "environment.digest",
    `a layer is not the one of its manifest: expected ${digest}, got ${actual}`,
    {
      hint: `remove the damaged copy, ${path}, and try again`,
    },
  );
}

/**
 * The output of `TOOL -dc` for an input.
 * @throws {SbxError} `environment.layer.invalid`, `image.tool_missing`
 */
async function* filtered(tool: string, input: AsyncIterable<Uint8Array>, signal?: AbortSignal) {
  await requireTools({ [tool]: UNPACKERS[tool] });
  using unpacker = await startUnpacker(tool);
  const { child } = unpacker;
  const kill = () => killed(child);
  signal?.addEventListener("abort", kill);
  const feeding = ReadableStream.from(input).pipeTo(child.stdin).catch(
    ignore("a tool that fails closes its input; its exit code is reported below"),
  );
  let isRead = false;
  try {
    yield* child.stdout;
    isRead = true;
  } finally {
    if (!isRead) kill();
    signal?.removeEventListener("abort", kill);
    await Promise.all([child.status, feeding]);
  }
  throwIfInterrupted(signal);
  if (!(await child.status).success) refuseLayer(`${tool} cannot unpack a layer`);
}

/** A program that unpacks its input. */
interface Unpacker extends Disposable {
  child: Pick<Deno.ChildProcess, "stdin" | "kill"> & {
    stdout: ReadableStream<Uint8Array>;
    status: Promise<{ success: boolean }>;
  };
}

/**
 * Starts a tool. On Linux it opens no file, socket or program: its input is a publisher's, and not hashed
 * yet.
 */
async function startUnpacker(tool: string): Promise<Unpacker> {
  const args = ["-dc"];
  if (Deno.build.os !== "linux") {
    const child = new Deno.Command(tool, { args, stdin: "piped", stdout: "piped", stderr: "null" }).spawn();
    return { child, [Symbol.dispose]() {} };
  }
  const path = Deno.env.get("PATH") ?? "/usr/bin:/bin";
  const failed = (reason: string) => new SbxError("image.tool_failed", `unpacking a layer failed: ${reason}`);
  const launcher = new ConfinedLauncher({
    rights: { run: placesOf(tool, path), read: ["/etc/ld.so.cache"], devices: ["/dev/null"] },
    notConfined: failed,
    notStarted: failed,
  });
  try {
    const child = await launcher.start({ argv: [tool, ...args], cwd: "/", env: { PATH: path, LC_ALL: "C" } });
    child.stderr.cancel();
    return { child, [Symbol.dispose]: () => launcher.close() };
  } catch (error) {
    launcher.close();
    throw error;
  }
}

function killed(child: Unpacker["child"]): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended, after its last bytes.
  }
}

async function packerOf(path: string): Promise<string | undefined> {
  using file = await Deno.open(path);
  const head = new Uint8Array(4);
  await file.read(head);
  return MAGIC.find(([bytes]) => bytes.every((byte, at) => head[at] === byte))?.[1];
}

function tooLarge(reason: string): never {
  throw new SbxError("environment.layer.too_large", `the image was refused: ${reason}`, {
    hint: "take an image from a publisher that you trust, or make a smaller one",
  });
}
