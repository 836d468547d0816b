import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Name of the aggregator's program (spec.md, "Aggregator subprocess lifecycle"). */
export const AGGREGATOR = "sbx-mcp-aggregator";
/** What Linux writes after the path of a program whose file was replaced while it runs, as an update does. */
const REPLACED = / \(deleted\)$/;

/** The aggregator beside this program, or in bin/ of a source tree; undefined where it is not installed. */
export async function aggregatorProgram(): Promise<string | undefined> {
  const folder = Deno.build.standalone
    ? dirname(Deno.execPath().replace(REPLACED, ""))
    : join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..", "bin");
  const path = join(folder, AGGREGATOR);
  return await Deno.stat(path).then(({ isFile }) => isFile, () => false) ? path : undefined;
}
