/**
 * The rest of a response, on standard input as the gateway sends it: exec.sh leaves long output to this, and with its
 * status as argument an error.
 */
import { asSbxError } from "../../lib/base/error/mod.ts";
import { responseError } from "../../lib/client/mod.ts";
import { printError } from "./output.ts";
import { SBX_FAILED, streamProgram } from "./program.ts";

/** Exit code after the reader of the output closed it: 128 + SIGPIPE. */
const BROKEN_PIPE = 141;

Deno.exit(
  await finish(new Response(Deno.stdin.readable, { status: Number(Deno.args[0] ?? 200) })).catch((error) => {
    if (error instanceof Deno.errors.BrokenPipe) return BROKEN_PIPE;
    printError(asSbxError(error, "the program"), false);
    return SBX_FAILED;
  }),
);

async function finish(response: Response): Promise<number> {
  if (!response.ok) throw await responseError(response);
  return await streamProgram(response);
}
