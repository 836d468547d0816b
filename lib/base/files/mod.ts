/**
 * Files below one folder, without following links out, whatever another program does there at the same time.
 */
export { type FileCalls, type FileEntry, type FileList, FileLister, type OpenPath } from "./list.ts";
export { Files, plainPath } from "./files.ts";
