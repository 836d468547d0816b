/** Hashes of bytes and files. */
export { Blake3, blake3, blake3File, type FileHash, HASH_CHUNK } from "./blake3.ts";
export { Digest } from "./digest.ts";
export { fileStamp } from "./stamp.ts";
