import type { FileEntry, FileList } from "../../lib/api/file.ts";
import type { VmInfo } from "../../lib/api/vm.ts";
import type { Client } from "../../lib/client/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";

/** Bytes of one file that is copied in: the gateway's limit of a body (contracts.md §2; a test compares them). */
export const UPLOAD_MAX = 10 * 1024 * 1024;
const DEPTH_MAX = 32;

/** A file that was copied. */
export interface Copied {
  from: string;
  to: string;
  size: number;
}

/** What was copied, and the paths of what was not. */
export interface CopyResult {
  copied: Copied[];
  leftOut: string[];
}

/** A VM's workspace, as the API shows it. */
export class Remote {
  readonly #client: Client;
  readonly #vm: string;

  /** @param vm name or id, encoded for a path */
  constructor(client: Client, vm: string) {
    this.#client = client;
    this.#vm = vm;
  }

  /** What is below a folder; undefined when `path` is a file. */
  async list(path: string): Promise<FileEntry[] | undefined> {
    try {
      const query = { path, depth: DEPTH_MAX };
      const { entries, truncated } = await this.#client.json<FileList>("GET", this.#url("list"), { query });
      if (!truncated) return entries;
    } catch (error) {
      if (error instanceof SbxError && error.code === "file.invalid") return undefined;
      throw error;
    }
    throw new SbxError("file.invalid", `"${path}" holds too many files for one copy`, {
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

  async read(path: string): Promise<ReadableStream<Uint8Array>> {
    return (await this.#client.send("GET", this.#url("content"), { query: { path } })).body!;
  }

  /** @param mode permission bits */
  async write(path: string, bytes: Uint8Array<ArrayBuffer>, mode: number): Promise<void> {
    const query = { path, mode: mode.toString(8).padStart(4, "0") };
    await this.#client.json("POST", this.#url("content"), { query, body: bytes });
  }

  /** Makes a folder, and those above it. */
  async makeFolder(path: string): Promise<void> {
    await this.#client.json("POST", this.#url("content"), { query: { path, type: "directory" } });
  }

  /** The folder on this machine that is the workspace: where to put or find what cannot be copied. */
  async folder(): Promise<string> {
    return (await this.#client.json<VmInfo>("GET", `/vms/${this.#vm}/info`)).workspace;
  }

  #url(what: string): string {
    return `/vms/${this.#vm}/files/${what}`;
  }
}

/** Path parts joined with single slashes. */
export function joined(...parts: string[]): string {
  return parts.filter((part) => part !== "").join("/").replace(/\/+/g, "/");
}
