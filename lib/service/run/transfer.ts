/**
 * Files of a VM that a person brings in or takes out (docs/design/contracts/02-http.md §2, "Files"): below
 * /workspace on the host, elsewhere through the guest's agent. The rules are asked about each, and it is on
 * record with its hash.
 */
import { join } from "node:path";
import { z } from "zod";
import { FileEntry, FileList } from "../../client/api/mod.ts";
import { freeBytes } from "../../base/disk/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { Blake3, blake3 } from "../../base/hash/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import { GUEST_WORKSPACE } from "../../event/mod.ts";
import type { HostRecords } from "../record/host_record.ts";
import type { ReplyTo } from "../../session/ipc/mod.ts";
import { userName } from "../../base/user/mod.ts";
import type { Asker } from "../vm/suspension.ts";
import type { Vm } from "../vm/vm.ts";
import { awaitFile } from "../vm/vm_files.ts";
import { BroughtFiles } from "./brought.ts";
import { guestPath, relativePath, Workspace } from "./workspace.ts";

/** `bytes` of one piece of a file. */
const CHUNK = 256 * 1024;
/** `bytes` of the disk that a copy out of a guest leaves free (docs/design/contracts/02-http.md §2). */
const KEEP_FREE = 128 * 1024 * 1024;
/** Most `bytes` of an agent's answer that is no file: a page of a listing. */
const ANSWER_MAX = 64 * 1024 * 1024;
const TARGET_MAX = 4095;
/** Permission bits of a file without others. */
const MODE_DEFAULT = 0o644;
/** Most characters of a code of an error. */
const CODE_MAX = 64;
/** Most characters of a listed path: 32 names. */
const LISTED_MAX = 32 * 256;

const GuestStat = z.strictObject({
  type: z.enum(["file", "directory", "other"]),
  size: z.int().nonnegative(),
  mode: z.string().regex(/^[0-7]{1,4}$/),
});

/** Who moves a file, for its record. */
export interface Mover {
  client: string;
  trace_id?: string;
}

/** Parts of the service that files of a VM involve. */
export interface FileParts {
  /** waits until the VM can run programs (`Supervisor.ready`) */
  ready(vm: Vm, asker: Asker): Promise<void>;
  records: Pick<HostRecords, "decide">;
}

/** A file on its way to a person. */
export interface OpenFile {
  body: ReadableStream<Uint8Array>;
  size: number;
  /** `bytes` that it takes on a disk */
  allocated: number;
  /** permission bits */
  mode: number;
}

/**
 * Whether a path is of the guest alone: absolute, and not below /workspace.
 *
 * @throws {SbxError} `path.invalid`
 */
export function isGuestPath(path: string): boolean {
  if (!path.startsWith("/")) return false;
  const parts = namesOf(path);
  if (`/${parts[0]}` === GUEST_WORKSPACE) return false;
  if (path.includes("\0") || parts.includes("..") || parts.length === 0) {
    throw new SbxError("path.invalid", "a path of the guest has a name, no NUL, and no part ..", {
      hint: "name a file or folder below /",
    });
  }
  return true;
}

/** Names of a path: rules see one spelling of it. */
function namesOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}

/** The files of one VM. */
export class VmFiles {
  readonly #vm: Vm;
  readonly #parts: FileParts;
  readonly #mover: Mover;
  readonly #gone: AbortSignal | undefined;

  /** @param gone ends work for a client that went away: its duration is up to the guest */
  constructor(parts: FileParts, vm: Vm, mover: Mover, gone?: AbortSignal) {
    this.#vm = vm;
    this.#parts = parts;
    this.#mover = mover;
    this.#gone = gone;
  }

  /**
   * @param limit most `bytes`
   * @throws {SbxError} `policy.blocked`; as {@linkcode Workspace.open}; `disk.full`, `file.conflict`;
   * `repo.too_large`
   */
  async open(path: string, limit = Infinity): Promise<OpenFile> {
    const found = isGuestPath(path) ? await this.#fetch(path) : await this.#openShared(path);
    try {
      if (found.size > limit) {
        throw new SbxError("repo.too_large", `"${path}" has ${found.size} bytes, more than ${limit}`, {
          hint: "nothing was taken; sbx cp SRC DST copies single files",
        });
      }
      const hash = await hashOf(found.file, found.size, this.#gone);
      await this.#decide("export", path, found.size, hash);
      await found.file.seek(0, Deno.SeekMode.Start);
      const { file, ...rest } = found;
      return { ...rest, body: unchanged(file, path, found.size, hash) };
    } catch (error) {
      found.file.close();
      throw error;
    }
  }

  /** @returns its size in `bytes` @throws {SbxError} `policy.blocked`; as {@linkcode Workspace.write} */
  async write(path: string, bytes: ReadableStream<Uint8Array>, mode?: number): Promise<number> {
    if (isGuestPath(path)) return await this.#send(path, bytes, mode);
    const hash = new Blake3();
    await using copy = await this.#copy();
    const hashed = bytes.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        async transform(chunk, controller) {
          hash.update(chunk);
          await copy.write(chunk);
          controller.enqueue(chunk);
        },
      }),
    );
    const complete = async (size: number) => {
      const digest = hash.digest();
      await this.#decide("import", path, size, digest, { kind: "file", mode: modeText(mode) });
      await copy.keep(digest);
    };
    const size = await this.#shared(path).write(path, hashed, mode, complete);
    await awaitFile(this.#vm, path, size);
    return size;
  }

  async makeFolder(path: string): Promise<void> {
    await this.#decide("import", path, 0, undefined, { kind: "folder" });
    if (isGuestPath(path)) await this.#act(["folder", path]);
    else await this.#shared(path).makeFolder(path);
  }

  async makeLink(path: string, target: string): Promise<void> {
    const bytes = new TextEncoder().encode(target);
    const hash = blake3(bytes);
    await this.#decide("import", path, bytes.length, hash, { kind: "link" });
    await using copy = await this.#copy();
    await copy.write(bytes);
    await copy.keep(hash);
    if (!isGuestPath(path)) return await this.#shared(path).makeLink(path, target);
    if (target === "" || target.includes("\0") || bytes.length > TARGET_MAX) {
      throw new SbxError("file.invalid", `"${path}" cannot be a link to that path`);
    }
    await this.#act(["link", path, target]);
  }

  async list(path: string, depth = 1, cursor?: string): Promise<FileList> {
    if (!isGuestPath(path)) return await this.#shared(path).list(path, depth, cursor);
    const folder = path.replace(/\/+$/, "");
    if (cursor !== undefined && !cursor.startsWith(`${folder}/`)) {
      throw new SbxError("request.invalid", `the cursor "${cursor}" is not of the folder "${path}"`, {
        hint: "pass next_cursor of the page before, with the same path and depth",
      });
    }
    const words = [
      "list",
      path,
      `${depth}`,
      ...cursor === undefined ? [] : [cursor.slice(folder.length + 1)],
    ];
    const page = readAnswer(GuestList, await this.#act(words));
    const whole = (each: string) => `${folder}/${each}`;
    return {
      ...page,
      entries: page.entries.map((entry) => ({ ...entry, path: whole(entry.path) })),
      left_out: page.left_out.map(whole),
      ...(page.next_cursor !== undefined && { next_cursor: whole(page.next_cursor) }),
    };
  }

  async #openShared(path: string): Promise<Omit<OpenFile, "body"> & { file: Deno.FsFile }> {
    return await this.#shared(path).open(path);
  }

  /**
   * @throws {SbxError} `file.invalid`: the path is in a folder of this host that the VM has in its workspace
   */
  #shared(path: string): Workspace {
    const { paths, record: { live } } = this.#vm;
    if (live && relativePath(path).split("/")[0] === live.name) {
      throw new SbxError("file.invalid", `"${path}" is of the folder "${live.dir}" of this host`, {
        hint: "copy from there, or to there",
      });
    }
    return new Workspace(paths.workspace);
  }

  /** Takes a file of the guest onto the host, where no other program finds it. */
  async #fetch(path: string): Promise<Omit<OpenFile, "body"> & { file: Deno.FsFile }> {
    const { type, size, mode } = readAnswer(GuestStat, await this.#act(["stat", path]));
    if (type !== "file") {
      throw new SbxError(
        "file.invalid",
        `"${path}" is ${type === "directory" ? "a folder" : "not a regular file"}`,
      );
    }
    if (size > await freeBytes(this.#vm.paths.dir) - KEEP_FREE) {
      throw new SbxError("disk.full", `"${path}" has ${size} bytes, for which this disk has no room`, {
        hint: "free some space, or copy a part of it",
      });
    }
    const file = await spool(this.#vm.paths.dir);
    try {
      let received = 0;
      await this.#run(["read", path], size + 1, async (bytes) => {
        received += bytes.length;
        await writeAll(file, bytes);
      });
      if (received !== size) {
        throw new SbxError("file.conflict", `"${path}" was copied with ${received} of ${size} bytes`, {
          hint: "copy it again; a file that changes meanwhile cannot be copied",
        });
      }
      return { file, size, allocated: size, mode: parseInt(mode, 8) & 0o777 };
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Puts a file into the guest, once all of it is here and the rules were asked. */
  async #send(path: string, bytes: ReadableStream<Uint8Array>, mode?: number): Promise<number> {
    if (path.endsWith("/")) {
      throw new SbxError("file.invalid", `"${path}" names a folder: a file needs a name`);
    }
    using file = await spool(this.#vm.paths.dir);
    await using copy = await this.#copy();
    const hash = new Blake3();
    let size = 0;
    for await (const chunk of bytes) {
      await writeAll(file, chunk);
      await copy.write(chunk);
      hash.update(chunk);
      size += chunk.length;
    }
    const digest = hash.digest();
    await this.#decide("import", path, size, digest, { kind: "file", mode: modeText(mode) });
    await copy.keep(digest);
    await file.seek(0, Deno.SeekMode.Start);
    const words = ["write", path, modeText(mode), `${size}`];
    await this.#run(words, ANSWER_MAX, () => Promise.resolve(), piecesOf(file));
    return size;
  }

  /** @throws {SbxError} `policy.blocked`, `ledger.unavailable` */
  async #decide(
    operation: "import" | "export",
    path: string,
    byte_count: number,
    hash?: string,
    brought: { kind?: "file" | "folder" | "link"; mode?: string } = {},
  ): Promise<void> {
    if (isGuestPath(path)) await this.#parts.ready(this.#vm, "a file");
    const { client, trace_id } = this.#mover;
    const reply = await this.#parts.records.decide(this.#vm, {
      operation,
      path: isGuestPath(path) ? `/${namesOf(path).join("/")}` : guestPath(relativePath(path)),
      byte_count,
      labels: { client, user: userName(), ...(hash && { blake3: hash }), ...brought },
      ...(trace_id !== undefined && { trace_id }),
    });
    if (reply.refusal === undefined) return;
    throw new SbxError("policy.blocked", reply.refusal, {
      hint: `sbx why ${reply.event_id} shows the record`,
    });
  }

  /** A copy of the bytes that are brought in, for trials of `sbx learn`. */
  #copy() {
    return new BroughtFiles(this.#vm.paths.brought).begin();
  }

  /** The answer of an action, as bytes of the guest. */
  async #act(words: string[]): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    await this.#run(words, ANSWER_MAX, (bytes) => Promise.resolve(void parts.push(bytes)));
    return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
  }

  async #run(
    words: string[],
    limit: number,
    output: (bytes: Uint8Array) => Promise<void>,
    input?: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    await this.#parts.ready(this.#vm, "a file");
    using call = await this.#vm.process.open({ t: "GuestFile", words, limit, stdin: input !== undefined });
    this.#gone?.throwIfAborted();
    this.#gone?.addEventListener("abort", () => call.close());
    const sent = sendAll(call, input).catch(ignore("the agent's answer has the failure"));
    let code = "";
    for (let reply = await call.next(); reply !== null; reply = await call.next()) {
      if (reply.t === "Output" && reply.stream === "stdout") await output(Uint8Array.fromBase64(reply.data));
      else if (reply.t === "Output") code = (code + atob(reply.data)).slice(0, CODE_MAX);
      else if (reply.t === "FileDone") {
        await sent;
        return finish(reply, words[1], code);
      }
    }
    throw new SbxError("process.gone", `the VM "${this.#vm.record.name}" ended while a file was copied`, {
      hint: `sbx info ${this.#vm.record.name} shows the reason`,
    });
  }
}

const GuestList = FileList.extend({
  entries: z.array(FileEntry.extend({ path: z.string().refine(isInside) })).max(10_000),
  next_cursor: z.string().refine(isInside).optional(),
});

/** Permission bits, in octal. */
function modeText(mode = MODE_DEFAULT): string {
  return (mode & 0o777).toString(8);
}

/** A listing of a hostile guest leads nowhere else. */
function isInside(path: string): boolean {
  return path.length <= LISTED_MAX && !path.includes("\0") &&
    path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

/** @throws {SbxError} `guest.failed` */
function readAnswer<T extends z.ZodType>(schema: T, bytes: Uint8Array): z.infer<T> {
  try {
    return schema.parse(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)));
  } catch (cause) {
    throw new SbxError("guest.failed", "the guest answered with something else than its files", {
      cause,
      hint: "sbx logs NAME shows the guest's console",
    });
  }
}

/** The errors of the agent, of which the guest chooses the code alone. */
function finish(
  { exit_code, truncated }: Pick<ReplyTo<"GuestFile"> & { t: "FileDone" }, "exit_code" | "truncated">,
  path: string,
  code: string,
): void {
  if (exit_code === 0 && !truncated) return;
  switch (truncated ? "file.conflict" : code) {
    case "file.not_found":
      throw new SbxError("file.not_found", `"${path}" is not in the VM`);
    case "file.invalid":
      throw new SbxError(
        "file.invalid",
        `"${path}" is not of the requested kind, or cannot be opened in the VM`,
        {
          hint: "name a regular file or a folder; sbx exec NAME -- ls -ld PATH shows what it is",
        },
      );
    case "disk.full":
      throw new SbxError("disk.full", `the VM's disk has no room for "${path}"`, {
        hint: "free some space in the VM, or create one with a larger disk (--scratch-gb)",
      });
    case "file.conflict":
      throw new SbxError("file.conflict", `"${path}" changed while it was copied`, { hint: "copy it again" });
  }
  throw new SbxError("guest.failed", `the guest's agent failed with "${path}"`, {
    hint: "sbx logs NAME shows the guest's console",
  });
}

async function sendAll(
  call: { send(input: { t: "Data"; data: string } | { t: "End" }): Promise<void> },
  input: AsyncIterable<Uint8Array> | undefined,
): Promise<void> {
  if (!input) return;
  for await (const bytes of input) await call.send({ t: "Data", data: bytes.toBase64() });
  await call.send({ t: "End" });
}

/** A file without a name, beside a VM's own. */
async function spool(dir: string): Promise<Deno.FsFile> {
  const path = join(dir, `.transfer-${crypto.randomUUID()}`);
  const file = await Deno.open(path, { read: true, write: true, createNew: true, mode: 0o600 });
  await Deno.remove(path);
  return file;
}

async function* piecesOf(file: Deno.FsFile): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const chunk = new Uint8Array(CHUNK);
  for (let read = await file.read(chunk); read !== null; read = await file.read(chunk)) {
    yield chunk.slice(0, read);
  }
}

/** Hash of the first `size` bytes of a file: a program of the VM may add more without end. */
async function hashOf(file: Deno.FsFile, size: number, gone?: AbortSignal): Promise<string> {
  await file.seek(0, Deno.SeekMode.Start);
  const hash = new Blake3();
  let left = size;
  for await (const piece of piecesOf(file)) {
    gone?.throwIfAborted();
    const part = piece.subarray(0, left);
    hash.update(part);
    left -= part.length;
    if (left === 0) break;
  }
  return hash.digest();
}

/** The bytes that were decided on; a file that a program changes meanwhile breaks off. */
function unchanged(
  file: Deno.FsFile,
  path: string,
  size: number,
  expected: string,
): ReadableStream<Uint8Array> {
  return ReadableStream.from((async function* () {
    using open = file;
    const hash = new Blake3();
    let left = size;
    for await (const piece of piecesOf(open)) {
      const part = piece.subarray(0, left);
      left -= part.length;
      hash.update(part);
      // The last bytes wait for the hash of all.
      if (left === 0) {
        if (hash.digest() !== expected) break;
        if (part.length > 0) yield part;
        return;
      }
      yield part;
    }
    if (size === 0) return;
    throw new SbxError("file.conflict", `"${path}" changed while it was copied`, { hint: "copy it again" });
  })());
}
