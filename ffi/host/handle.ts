/** Handles of files and folders that each host's calls implement. */
import type { FileStat } from "../libc/stat.ts";

type Name = Uint8Array<ArrayBuffer>;

/** One open file. Every method throws `CallError`. */
export interface Descriptor extends Disposable {
  readonly fd: number;
  stat(): FileStat;
  /** Fills a buffer as far as the file goes. @returns `bytes` read */
  read(buffer: Uint8Array<ArrayBuffer>, offset: number): number;
  write(bytes: Uint8Array<ArrayBuffer>, offset: number): void;
  /** Start and end of the data from `offset` on; undefined: there is only a hole. */
  nextData(offset: number): { start: number; end: number } | undefined;
  truncate(size: number): void;
  /** Shares the blocks of another file. @returns false: this system, or this pair of file systems, cannot */
  cloneFrom(source: Descriptor): boolean;
  chmod(mode: number): void;
  /** Gives the file to a user; without root, it keeps its owner. */
  tryChown(uid: number, gid: number): void;
  /** Sets the time of the last change of content. */
  setTime(seconds: bigint, nanoseconds: bigint): void;
  sync(): Promise<void>;
}

/** An open folder. Names are single components; every method throws `CallError` and follows no link. */
export interface Folder extends Descriptor {
  /** Opens a folder below this one. @param path bytes, relative; empty: this folder again */
  folder(path: Uint8Array): Folder;
  /** Yields the names in this folder, without `.` and `..`, in no order; each is valid until the next. */
  names(): Generator<Name>;
  /** Attributes of an entry. @returns undefined if it does not exist */
  statOf(name: Name): FileStat | undefined;
  /** Opens a regular file for reading, touching nothing else. @returns undefined: not a regular file */
  openFile(name: Name): Descriptor | undefined;
  /** Creates a file that must not exist. */
  create(name: Name, mode?: number): Descriptor;
  readLink(name: Name): Uint8Array<ArrayBuffer>;
  makeLink(name: Name, target: Uint8Array): void;
  makeFolder(name: Name, mode?: number): void;
  /** Puts an entry in the place of another one, or of none, atomically. */
  rename(from: Name, to: Name): void;
  remove(name: Name): void;
  removeFolder(name: Name): void;
  /** Sets the time of the last change of a link itself. */
  setTimeOf(name: Name, seconds: bigint, nanoseconds: bigint): void;
  /** Gives a link to a user; without root, it keeps its owner. */
  tryChownOf(name: Name, uid: number, gid: number): void;
}

/** A file or folder that is held open: `path` leads to it until disposal, whatever its name is then. */
export interface PathHandle extends Disposable {
  readonly path: string;
}
