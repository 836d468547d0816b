/**
 * Compresses the files of the built desktop page once, for the gateway to send as
 * they are. `desktop_pack.ts FOLDER`
 */
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { join } from "node:path";

/** `bytes` below which a file is sent as it is. */
const MIN = 1024;

/** Puts `NAME.br` and `NAME.gz` beside each file of a folder, in place of earlier ones. */
export async function packFolder(dir: string): Promise<void> {
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
  for (const name of names.filter((each) => /\.(br|gz)$/.test(each))) await Deno.remove(join(dir, name));
  for (const name of names.filter((each) => /\.(js|css|html|svg)$/.test(each))) {
    const bytes = await Deno.readFile(join(dir, name));
    if (bytes.length < MIN) continue;
    const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
    await Deno.writeFile(join(dir, `${name}.br`), brotliCompressSync(bytes, { params }));
    await Deno.writeFile(join(dir, `${name}.gz`), gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION }));
  }
}

if (import.meta.main) await packFolder(Deno.args[0]);
