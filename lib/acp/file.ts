/**
 * Files of the person that the agent reads and writes by way of the editor: not at all, or ones in the folder
 * that look like no secrets; every write is a question with its difference.
 */
import { join } from "node:path";
import { RequestError } from "@agentclientprotocol/sdk";
import { ifFound } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import { looksSecret } from "../repo/mod.ts";
import type { Place } from "./place.ts";

/**
 * Whether the agent reaches the editor's files: never, to read changes that are not
 * saved yet, or to write as well.
 */
export type FileAccess = "none" | "read" | "write";

/** Most characters of one file, and most bytes of one that is written over. */
export const FILE_MAX = 4 * 1024 * 1024;

/** Folders whose files programs of the person run or obey. */
const OBEYED = new Set([".git", ".hg", ".svn", ".jj", ".vscode", ".idea", ".zed", ".husky", ".devcontainer"]);

export type FileAct = "read" | "write";

/**
 * Finds the person's file that a request is about.
 *
 * @returns its path, with no link in it
 * @throws {RequestError} not allowed, or outside of the folder, or like a secret
 */
export async function fileOf(
  path: string,
  act: FileAct,
  { place, access }: { place: Place; access: FileAccess },
): Promise<string> {
  if (access === "none" || act === "write" && access === "read") {
    throw refused(
      act === "read"
        ? "files of the editor are not read: the VM has the folder"
        : "files of the editor are not written: change the file in the VM, and sbx pull takes it back",
    );
  }
  if (plain(path) !== path) throw refused(`${plain(path)} has characters in its name that are not seen`);
  const own = place.toHost(path);
  if (own === undefined || own === place.dir) throw refused(`${path} is outside of the folder`);
  const rest = own.slice(place.dir.length + 1);
  if (rest.split("/").some((part) => OBEYED.has(part.toLowerCase()))) {
    throw refused(`${path} belongs to programs of the person, and stays with them`);
  }
  await requireNoLink(own, place.dir, path);
  if (await looksSecret(rest, (bytes) => beginningOf(own, bytes))) {
    throw refused(`${path} looks like a secret`);
  }
  return own;
}

/** A path whose folders are links would lead anywhere, and so would the file itself. */
async function requireNoLink(own: string, root: string, path: string): Promise<void> {
  const parts = own.slice(root.length + 1).split("/");
  for (let count = 1; count <= parts.length; count++) {
    const info = await ifFound(Deno.lstat(join(root, ...parts.slice(0, count))));
    if (!info) return;
    if (info.isSymlink) throw refused(`${path} leads through a link`);
    if (count < parts.length ? !info.isDirectory : !info.isFile) throw refused(`${path} is not a file`);
  }
}

/**
 * The text that a write replaces, for the person to compare.
 *
 * @returns undefined: there is no file
 * @throws {RequestError} too large to be shown, or not readable
 */
export async function textBefore(path: string): Promise<string | undefined> {
  try {
    const info = await ifFound(Deno.stat(path));
    if (!info) return undefined;
    if (info.size <= FILE_MAX) return await ifFound(Deno.readTextFile(path));
  } catch {
    // The reason has a path of the host, which the agent is not to see.
    throw refused("the file cannot be read, and so not compared");
  }
  throw refused("the file is too large to be compared");
}

/** First `bytes` of a file; empty for one that is not there. */
async function beginningOf(path: string, bytes: number): Promise<string> {
  using file = await ifFound(Deno.open(path));
  if (!file) return "";
  const buffer = new Uint8Array(bytes);
  const read = await file.read(buffer);
  return new TextDecoder().decode(buffer.subarray(0, read ?? 0));
}

function refused(reason: string): RequestError {
  return RequestError.invalidParams(undefined, `sbx: ${reason}`);
}
