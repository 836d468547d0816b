/** Files below one folder, without following links out, whatever another program does there at the same time. */
export type { FileCalls, OpenPath } from "./calls.ts";
export { Files } from "./files.ts";
export { type FileEntry, type FileList, FileLister } from "./list.ts";
export { plainPath } from "./path.ts";
