/** Files below one folder, without following links out, whatever another program does there at the same time. */
export type { FileCalls, OpenPath } from "./calls.ts";
export { Files, plainPath } from "./files.ts";
export { type FileEntry, type FileList, FileLister } from "./list.ts";
