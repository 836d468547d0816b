/**
 * The guest's sbx-sign over a Unix socket in place of vsock:
 * `sign_program.ts SOCKET SIGNERS ARGUMENTS`, as git calls it.
 */
import { ADVICE, partsOf } from "../../cmd/guest/sign/parts.ts";
import { answer } from "../../cmd/guest/sign/program.ts";

const [path, signers, ...args] = Deno.args;
const open = () => Deno.connect({ transport: "unix", path });
Deno.exit(
  await answer(args, partsOf({ open, keygen: "ssh-keygen", signers })).catch((error: Error) => {
    console.error(`sbx-sign: ${error.message}\n${ADVICE}`);
    return 1;
  }),
);
