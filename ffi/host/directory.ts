/** Names in a folder as bytes, on this system: Deno's own listing leaves out names that are not UTF-8. */
import { readNames as readNamesOnLinux } from "../libc/directory.ts";
import { Calls, DARWIN, readNamesOf } from "../posix/mod.ts";

const MAC = new Calls(DARWIN);

/** Yields the names in a folder, without `.` and `..`, in no order. @throws {Error} the folder cannot be read */
export function readNames(path: string): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  return Deno.build.os === "darwin" ? readNamesOf(MAC, path) : readNamesOnLinux(path);
}
