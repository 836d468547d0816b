/** Tools for files in a VM's workspace. */
import { z } from "zod";
import { FileList, FileWritten } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Tool, tool, vm } from "../tool.ts";

/** `bytes` of a file in one result, by default and at most. */
const READ_BYTES = 64 * 1024;
const READ_BYTES_MAX = 256 * 1024;
/** `bytes` of one request (docs/design/contracts/02-http.md §2). */
const WRITE_BYTES_MAX = 10 * 1024 * 1024;

/** Entries of a folder in one result, and levels of folders (docs/design/contracts/02-http.md §2). */
const ENTRIES_MAX = 1000;
const DEPTH_MAX = 32;

const path = z.string().min(1).max(4096).describe("relative to the workspace, or below /workspace");
const encoding = z.enum(["utf8", "base64"]);

export const FILE_TOOLS: Tool[] = [
  tool({
    name: "read_file",
    title: "Read a workspace file",
    description:
      "Reads a file in a VM's workspace; the VM need not be running. Read files elsewhere in the VM with `exec` (cat). " +
      "Text is returned as it is, bytes that are not UTF-8 as base64. Read a long file in parts with offset and max_bytes.",
    input: z.strictObject({
      vm,
      path,
      offset: z.int().min(0).default(0).describe("first byte to read"),
      max_bytes: z.int().min(1).max(READ_BYTES_MAX).default(READ_BYTES),
    }),
    output: z.object({
      path: z.string(),
      size: z.int().describe("bytes of the whole file"),
      offset: z.int(),
      bytes: z.int().describe("bytes of content"),
      truncated: z.boolean().describe("more of the file follows: read again from offset + bytes"),
      encoding,
      content: z.string(),
    }),
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async ({ path, offset, max_bytes, ...input }, { client, vm }) => {
      const url = `/vms/${segment(await vm(input.vm))}/files/content`;
      const response = await client.send("GET", url, { query: { path } });
      const bytes = await readRange(response.body!, offset, max_bytes);
      const size = Number(response.headers.get("content-length") ?? offset + bytes.length);
      const truncated = offset + bytes.length < size;
      const { length, ...content } = contentOf(bytes, truncated);
      return { path, size, offset, bytes: length, truncated, ...content };
    },
  }),
  tool({
    name: "write_file",
    title: "Write a workspace file",
    description:
      "Writes a file in a VM's workspace and creates its parent folders; an existing file is replaced. The VM sees the file " +
      "at once below /workspace. Keys in a .env file are stored on the host, and the VM gets refs that work in their place. Write files elsewhere in the VM with `exec`.",
    input: z.strictObject({
      vm,
      path,
      content: z.string().max(WRITE_BYTES_MAX * 1.4),
      encoding: encoding.default("utf8").describe("of content"),
      mode: z.string().regex(/^[0-7]{3,4}$/).optional().describe("permission bits, octal; default: 0644"),
    }),
    output: FileWritten,
    hints: { readOnly: false, destructive: true, idempotent: true, openWorld: false },
    run: async ({ path, content, encoding, mode, ...input }, { client, vm }) => {
      const body = bytesOf(content, encoding);
      const query = { path, mode };
      const url = `/vms/${segment(await vm(input.vm))}/files/content`;
      const written = await client.json<FileWritten>("POST", url, { query, body });
      if (written.size === body.length || written.captured !== undefined) return written;
      throw new SbxError(
        "file.conflict",
        `"${path}" was written with ${written.size} of ${body.length} bytes`,
        {
          hint: "write it again",
        },
      );
    },
  }),
  tool({
    name: "list_folder",
    title: "List a workspace folder",
    description:
      "Lists a folder of a VM's workspace; the VM need not be running. List folders elsewhere in the VM with `exec` (ls).",
    input: z.strictObject({
      vm,
      path: path.default("."),
      depth: z.int().min(1).max(DEPTH_MAX).default(1).describe("levels of folders below it"),
      cursor: z.string().max(8192).optional().describe(
        "next_cursor of the answer before, for what follows it",
      ),
    }),
    output: FileList,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async ({ path, depth, cursor, ...input }, { client, vm }) => {
      const url = `/vms/${segment(await vm(input.vm))}/files/list`;
      const query = { path, depth, cursor };
      const page = await client.json<FileList>("GET", url, { query });
      const entries = page.entries.slice(0, ENTRIES_MAX);
      const left_out = page.left_out.slice(0, ENTRIES_MAX);
      if (entries.length === page.entries.length) return { ...page, left_out };
      return { ...page, entries, left_out, truncated: true, next_cursor: entries.at(-1)!.path };
    },
  }),
  tool({
    name: "make_folder",
    title: "Make a workspace folder",
    description:
      "Makes a folder in a VM's workspace, with its parent folders. An existing folder stays as it is.",
    input: z.strictObject({ vm, path }),
    output: FileWritten,
    hints: { readOnly: false, destructive: false, idempotent: true, openWorld: false },
    run: async ({ path, ...input }, { client, vm }) => {
      const query = { path, type: "directory" };
      return await client.json("POST", `/vms/${segment(await vm(input.vm))}/files/content`, { query });
    },
  }),
];

/** Reads a stream from `offset`, at most `max` bytes. */
async function readRange(body: ReadableStream<Uint8Array>, offset: number, max: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(max);
  let skip = offset;
  let size = 0;
  for await (const chunk of body) {
    const from = Math.min(skip, chunk.length);
    skip -= from;
    const fits = chunk.subarray(from, from + max - size);
    bytes.set(fits, size);
    size += fits.length;
    if (size === max) break;
  }
  return bytes.subarray(0, size);
}

/**
 * Content as text, or as base64 when it is not UTF-8. The bytes of a cut
 * character are left for the next part.
 */
function contentOf(
  bytes: Uint8Array,
  truncated: boolean,
): { content: string; encoding: "utf8" | "base64"; length: number } {
  const whole = truncated ? bytes.subarray(0, lengthOfWholeCharacters(bytes)) : bytes;
  try {
    const content = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(whole);
    // max_bytes is smaller than the first character.
    if (whole.length === 0 && truncated) throw new TypeError();
    // Control characters are longer as JSON than as base64.
    if (JSON.stringify(content).length > 2 * whole.length + 2) throw new TypeError();
    return { content, encoding: "utf8", length: whole.length };
  } catch {
    return { content: bytes.toBase64(), encoding: "base64", length: bytes.length };
  }
}

/** Length in `bytes` without a cut character at the end, for UTF-8. */
function lengthOfWholeCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

function bytesOf(content: string, encoding: "utf8" | "base64"): Uint8Array<ArrayBuffer> {
  if (encoding === "utf8") return new TextEncoder().encode(content);
  try {
    return Uint8Array.fromBase64(content);
  } catch (cause) {
    throw new SbxError("request.malformed", "content is not valid base64", {
      cause,
      hint: 'send base64, or set encoding to "utf8"',
    });
  }
}
