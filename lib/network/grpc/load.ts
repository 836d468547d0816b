/** Reads the files with descriptors that a profile names. */
import { basename } from "node:path";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { GRPC_DESCRIPTOR_FILE_MAX, GRPC_DESCRIPTORS_MAX } from "./limit.ts";
import { openTypes } from "./types.ts";

/** How people make such a file. */
const MAKE = "make it with: protoc --include_imports --descriptor_set_out=FILE …, or buf build -o FILE";

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
    const bytes = await readFile(path);
    const set = parse(path, () => fromBinary(FileDescriptorSetSchema, bytes));
    const services = parse(path, () => [...createFileRegistry(set)].filter(({ kind }) => kind === "service"));
    if (services.length === 0) throw invalid(path, "describes no service", MAKE);
    for (const file of set.file) {
      file.sourceCodeInfo = undefined;
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
      "name only the services that rules are about",
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
        "name only the services that rules are about",
      );
    }
    return await Deno.readFile(path);
  } catch (error) {
    if (error instanceof SbxError) throw error;
    throw invalid(path, "cannot be read", "give your user read permission on it", error);
  }
}

/** Runs a step of the library, whose errors have no path. */
function parse<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const [cause] = (error as Error).message.split("\n");
    throw invalid(path, `is no set of descriptors with all its imports: ${cause}`, MAKE, error);
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
