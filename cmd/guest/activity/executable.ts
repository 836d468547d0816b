/** Files that are executed. */
import { identityOf, readHead } from "../../../ffi/libc/inode.ts";

/** Loaders of libraries of the architectures that a guest may have. */
const LOADERS = [
  "/lib64/ld-linux-x86-64.so.2",
  "/lib/ld-linux.so.2",
  "/lib/ld-linux-aarch64.so.1",
];
const ELF = [0x7f, 0x45, 0x4c, 0x46];
const HASH = 0x23, BANG = 0x21;
const decoder = new TextDecoder();
/** Bytes of a script that the kernel reads for its interpreter. */
const head = new Uint8Array(256);

/**
 * Checked each time: a VM that starts from a template changes its root file system while this program runs,
 * and an upgrade replaces the loader.
 */
export function isLoader(file: string | undefined): boolean {
  return file !== undefined && LOADERS.some((path) => identityOf(path) === file);
}

/** True for an open program that the kernel may open a loader for: a script has an interpreter, of which that is true. */
export function mayHaveLoader(fd: number): boolean {
  const size = readHead(fd, head);
  return size >= ELF.length && ELF.every((byte, at) => head[at] === byte);
}

/** Identity of the interpreter that an open script names. */
export function interpreterOf(fd: number): string | undefined {
  const size = readHead(fd, head);
  if (head[0] !== HASH || head[1] !== BANG) return undefined;
  const name = /^#![ \t]*([^ \t\n]+)/.exec(decoder.decode(head.subarray(0, size)))?.[1];
  return name === undefined ? undefined : identityOf(name);
}
