import { SbxError } from "../error/mod.ts";

/**
 * A relative path without empty parts and `.`; undefined: it is absolute or has a `..`.
 *
 * @throws {SbxError} `path.invalid`: a path with NUL
 */
export function plainPath(path: string): string | undefined {
  if (path.includes("\0")) throw new SbxError("path.invalid", "a path may not contain NUL");
  const parts = path.split("/");
  if (path.startsWith("/") || parts.includes("..")) return undefined;
  return parts.filter((part) => part !== "" && part !== ".").join("/");
}
