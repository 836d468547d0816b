import type { Calls } from "./calls.ts";
import { PosixFolder } from "./folder.ts";

/** Yields the names in a folder, without `.` and `..`, in no order. @throws {Error} the folder cannot be read */
export async function* readNamesOf(calls: Calls, path: string): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  using folder = openOrThrow(calls, path);
  let count = 0;
  for (const name of folder.names()) {
    // A large folder must not block other work.
    if (++count % 1000 === 0) await new Promise((resolve) => setTimeout(resolve));
    yield name;
  }
}

function openOrThrow(calls: Calls, path: string): PosixFolder {
  try {
    return PosixFolder.open(calls, path);
  } catch (cause) {
    throw new Error(`the folder ${path} cannot be opened`, { cause });
  }
}
