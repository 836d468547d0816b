/** Reads the files with descriptors that a profile names. */
import { basename } from "node:path";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { WireReader } from "./decode.ts";
import { GRPC_DESCRIPTOR_FILE_MAX, GRPC_DESCRIPTORS_MAX } from "./limit.ts";
import { openTypes } from "./types.ts";

/** Commands that make such a file. */
const MAKE = "make it with: protoc --include_imports --descriptor_set_out=FILE …, or buf build -o FILE";
const NAME_FEWER = "name only the services that rules are about";
/** Numbers of fields: a file of a set, and its comments and places. */
const FILE = 1, SOURCE_CODE_INFO = 9;

/**
 * Reads files that protoc or buf wrote, into one `FileDescriptorSet` without comments.
 *
 * @throws {SbxError} `profile.invalid`: names the file and its fault
 */
export async function loadDescriptors(paths: readonly string[]): Promise<Uint8Array> {
  const [
    { createFileRegistry, create, fromBinary, toBinary },
    { FileDescriptorProtoSchema, FileDescriptorSetSchema },
  ] = await Promise.all([import("@bufbuild/protobuf"), import("@bufbuild/protobuf/wkt")]);
  const files = new Map<string, { path: string; bytes: Uint8Array }>();
  for (const path of paths) {
    const file = await readFile(path);
    const bytes = parse(path, () => withoutComments(file));
    if (bytes.length > GRPC_DESCRIPTORS_MAX) {
      throw invalid(path, `has more than ${GRPC_DESCRIPTORS_MAX} bytes without comments`, NAME_FEWER);
    }
    const set = parse(path, () => fromBinary(FileDescriptorSetSchema, bytes));
    const services = parse(path, () => [...createFileRegistry(set)].filter(({ kind }) => kind === "service"));
    if (services.length === 0) throw invalid(path, "describes no service", MAKE);
    for (const file of set.file) {
      const own = toBinary(FileDescriptorProtoSchema, file);
      const other = files.get(file.name);
      if (other && !isSame(other.bytes, own)) {
        throw invalid(
          path,
          `and ${basename(other.path)} describe ${file.name} in different ways`,
          "make both from the same .proto files",
        );
      }
      if (!other) files.set(file.name, { path, bytes: own });
    }
  }
  const all = create(FileDescriptorSetSchema, {
    file: [...files.values()].map(({ bytes }) => fromBinary(FileDescriptorProtoSchema, bytes)),
  });
  const joined = toBinary(FileDescriptorSetSchema, all);
  if (joined.length > GRPC_DESCRIPTORS_MAX) {
    throw invalid(
      paths[0],
      `and the other descriptors of the profile have ${joined.length} bytes together, the limit is ${GRPC_DESCRIPTORS_MAX}`,
      NAME_FEWER,
    );
  }
  await openTypes(joined);
  return joined;
}

async function readFile(path: string): Promise<Uint8Array> {
  try {
    const found = await ifFound(Deno.stat(path));
    if (!found) throw invalid(path, "is missing", MAKE);
    if (!found.isFile) throw invalid(path, "is no file", MAKE);
    if (found.size > GRPC_DESCRIPTOR_FILE_MAX) {
      throw invalid(
        path,
        `is longer than ${GRPC_DESCRIPTOR_FILE_MAX} bytes`,
        NAME_FEWER,
      );
    }
    return await Deno.readFile(path);
  } catch (error) {
    if (error instanceof SbxError) throw error;
    throw invalid(path, "cannot be read", "give your user read permission on it", error);
  }
}

/** Longest tag and length of a file. */
const HEAD_MAX = 6;

/**
 * Copies a set without the comments and places of its files, which may be most of it, and of which the
 * library would make far more objects than bytes. Ends early at more than the limit.
 */
function withoutComments(set: Uint8Array): Uint8Array {
  const kept = new Uint8Array(set.length + HEAD_MAX);
  let count = 0;
  for (const files = new WireReader(set); !files.done && count <= GRPC_DESCRIPTORS_MAX;) {
    const { number, bytes } = files.field();
    if (number !== FILE) continue;
    const file = new WireReader(bytes);
    file.tag();
    const begin = count + HEAD_MAX;
    let end = begin;
    for (const fields = new WireReader(file.bytes()); !fields.done;) {
      const field = fields.field();
      if (field.number === SOURCE_CODE_INFO) continue;
      kept.set(field.bytes, end);
      end += field.bytes.length;
    }
    const head = [FILE << 3 | 2, ...varint(end - begin)];
    kept.set(head, count);
    kept.copyWithin(count + head.length, begin, end);
    count += head.length + end - begin;
  }
  return kept.subarray(0, count);
}

function varint(count: number): number[] {
  return count < 0x80 ? [count] : [count & 0x7f | 0x80, ...varint(count >>> 7)];
}

/** Runs a step of the library, whose errors have no path. */
function parse<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const [cause] = (error as Error).message.split("\n");
    throw invalid(path, `is not a set of descriptors with all its imports: ${cause}`, MAKE, error);
  }
}

function invalid(path: string, problem: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("profile.invalid", `${path} ${problem}`, {
    hint,
    ...(cause !== undefined && { cause }),
  });
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}
