/** A Deno to compile with and the runtime that it puts in front, for tests where Deno's own host cannot be reached. */
import { dirname, join } from "node:path";
import { runChild } from "./child.ts";
import { fromRoot } from "./repo.ts";

const SCRIPT = join(dirname(fromRoot("Makefile")), "../shared/tools/test-runtime.sh");
const LIMIT_MS = 600_000;

/** Variables of `make build`. @throws {Error} they cannot be had here */
export async function testRuntime(): Promise<{ DENO_COMPILE: string; DENORT_BIN: string }> {
  if (!await Deno.stat(SCRIPT).catch(() => null)) {
    throw new Error(
      `compiled tests need a runtime for deno compile, from shared/tools/test-runtime.sh beside the clone (looked for ${SCRIPT})`,
    );
  }
  const { success, stdout, stderr } = await runChild(SCRIPT, {}, LIMIT_MS);
  if (!success) throw new Error(`${SCRIPT}: ${new TextDecoder().decode(stderr)}`);
  const lines = new TextDecoder().decode(stdout).trim().split("\n").map((line) => line.split("="));
  const { DENO, DENORT_BIN } = Object.fromEntries(lines);
  return { DENO_COMPILE: DENO, DENORT_BIN };
}
