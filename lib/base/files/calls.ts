/** A file or folder that is held open: `path` leads to it until disposal, whatever its name is then. */
export interface OpenPath extends Disposable {
  readonly path: string;
}

/** Calls of the system that a tree of files needs (ffi/host, or ffi/libc in the guest, whose programs load no more than they need). */
export interface FileCalls {
  /** Opens `path` below `root`, and follows links that stay below it. @throws {OpenError} `EXDEV`: it leaves `root` */
  openBeneath(root: string, path: string, options: { directory: boolean }): OpenPath;
  /** Yields the names in a folder as bytes, in no order. */
  readNames(path: string): AsyncGenerator<Uint8Array<ArrayBuffer>>;
}
