/** Hashes of bytes and files. */
export { Blake3, blake3, blake3File, Digest, type FileHash, fileStamp, HASH_CHUNK } from "./blake3.ts";
