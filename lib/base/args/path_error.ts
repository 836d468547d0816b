import { dirname, resolve } from "node:path";
import { SbxError } from "../error/mod.ts";

/** Descriptions of a path that cannot be used, by the code of the system's error. */
const PROBLEMS: Record<string, (path: string) => string> = {
  ENOENT: (path) => `there is no file or folder ${path}`,
  EISDIR: (path) => `${path} is a folder, not a file`,
  ENOTDIR: (path) => `a part of ${path} is a file, not a folder`,
  EEXIST: (path) => `${path} exists already`,
  EACCES: (path) => `${path}: permission denied`,
  EPERM: (path) => `${path}: permission denied`,
};

/**
 * Names the argument of a call whose file a command could not use, so that a misspelt path is no bug of sbx.
 * Commands name the paths that they expect to be wrong; this is for all others.
 *
 * @returns `file.invalid_path`, or the error itself where no argument is such a path
 */
export function pathError(error: unknown, argv: readonly string[]): unknown {
  if (!(error instanceof Error) || error instanceof SbxError) return error;
  const describe = PROBLEMS[(error as { code?: string }).code ?? ""];
  // Both Deno's and Node's errors end with the operation and its paths.
  const paths = [...error.message.matchAll(/'([^']+)'/g)].map(([, path]) => path);
  if (describe === undefined || paths.length === 0) return error;
  const words = argv.map((word) => word.match(/^--[a-z-]+=(.+)$/s)?.[1] ?? word);
  const path =
    paths.find((path) =>
      words.some((word) => path === word || path === resolve(word) || path.startsWith(`${word}/`))
    ) ?? words.filter((word) => word.includes("/")).map(dirname).find((folder) =>
      // A file is written under another name, beside its own.
      paths.some((path) => resolve(dirname(path)) === resolve(folder)) && !isFolder(folder)
    );
  if (path === undefined) return error;
  return new SbxError("file.invalid_path", describe(path), { cause: error, hint: "check the path" });
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}
