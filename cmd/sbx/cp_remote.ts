import type { FileEntry, FileList, FileWritten, VmInfo } from "../../lib/api/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import type { Client } from "../../lib/client/mod.ts";

/** Most `bytes` of an uploaded file: the gateway's body limit (docs/contracts.md §2; a test compares them). */
export const UPLOAD_MAX = 10 * 1024 * 1024;
const DEPTH_MAX = 32;

/** A copied file. */
export interface CopiedFile {
  from: string;
  to: string;
  /** `bytes` */
  size: number;
}

/** Result of a copy. */
export interface CopyResult {
  copied: CopiedFile[];
  /** paths */
  skipped: string[];
}

/** A VM's workspace, accessed through the API. */
export class Remote {
  readonly #client: Client;
  readonly #vm: string;

  /** @param vm name or id, encoded for a path */
  constructor(client: Client, vm: string) {
    this.#client = client;
    this.#vm = vm;
  }

  /** Lists everything below a folder; undefined if `path` is a file. */
  async list(path: string): Promise<FileEntry[] | undefined> {
    try {
      const query = { path, depth: DEPTH_MAX };
      const { entries, truncated } = await this.#client.json<FileList>("GET", this.#url("list"), { query });
      if (!truncated) return entries;
    } catch (error) {
      if (error instanceof SbxError && error.code === "file.invalid") return undefined;
      throw error;
    }
    throw new SbxError("file.invalid", `"${path}" has too many files for one copy`, {
      hint: `use the workspace folder on this machine instead: ${await this.folder()}`,
    });
  }

  async isFolder(path: string): Promise<boolean> {
    try {
      const query = { path, depth: 1 };
      await this.#client.json<FileList>("GET", this.#url("list"), { query });
      return true;
    } catch (error) {
      if (error instanceof SbxError && (error.code === "file.invalid" || error.code === "file.not_found")) {
        return false;
      }
      throw error;
    }
  }

  /** Opens a file; `size` in `bytes`, where the service says it. */
  async read(path: string): Promise<{ body: ReadableStream<Uint8Array>; size?: number }> {
    const { body, headers } = await this.#client.send("GET", this.#url("content"), { query: { path } });
    const length = headers.get("content-length");
    return { body: body!, size: length === null ? undefined : Number(length) };
  }

  /** @param mode permission bits */
  async write(path: string, bytes: Uint8Array<ArrayBuffer>, mode: number): Promise<void> {
    const query = { path, mode: mode.toString(8).padStart(4, "0") };
    const { size } = await this.#client.json<FileWritten>("POST", this.#url("content"), {
      query,
      body: bytes,
    });
    if (size !== bytes.length) throw incompleteError(path, size, bytes.length);
  }

  /** Creates a folder and its parents. */
  async createFolder(path: string): Promise<void> {
    await this.#client.json("POST", this.#url("content"), { query: { path, type: "directory" } });
  }

  /** Path of the workspace on this machine, where files that cannot be copied are accessible. */
  async folder(): Promise<string> {
    return (await this.#client.json<VmInfo>("GET", `/vms/${this.#vm}/info`)).workspace;
  }

  #url(action: string): string {
    return `/vms/${this.#vm}/files/${action}`;
  }
}

/** Joins path parts with single slashes. */
export function joinPath(...parts: string[]): string {
  return parts.filter((part) => part !== "").join("/").replace(/\/+/g, "/");
}

/** Error of a copy that has fewer or more bytes than its source. */
export function incompleteError(path: string, written: number, size: number): SbxError {
  return new SbxError("file.conflict", `"${path}" was copied with ${written} of ${size} bytes`, {
    hint: "copy it again; a file that changes meanwhile cannot be copied",
  });
}
