/** The rest of a program's output, on standard input as the gateway sends it: exec.sh leaves long ones to this. */
import { asSbxError } from "../../lib/base/error/mod.ts";
import { printError } from "./output.ts";
import { SBX_FAILED, streamProgram } from "./program.ts";

/** Exit code after the reader of the output closed it: 128 + SIGPIPE. */
const BROKEN_PIPE = 141;

Deno.exit(
  await streamProgram(new Response(Deno.stdin.readable)).catch((error) => {
    if (error instanceof Deno.errors.BrokenPipe) return BROKEN_PIPE;
    printError(asSbxError(error, "sbx exec"), false);
    return SBX_FAILED;
  }),
);
