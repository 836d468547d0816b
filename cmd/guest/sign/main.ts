/**
 * sbx-sign: signs commits and tags for git with a key of the host, which asks its
 * user, and verifies signatures.
 */
import { ADVICE, partsOf } from "./parts.ts";
import { answer } from "./program.ts";

const ABOUT = `sbx-sign

git calls it as gpg.ssh.program and gpg.program. It asks the host to sign a commit or tag; the key never enters this VM.
`;

if (Deno.args.length === 0 || Deno.args[0] === "--help") {
  console.log(ABOUT.trimEnd());
  Deno.exit(0);
}

Deno.exit(
  await answer(Deno.args, partsOf()).catch((error: Error) => {
    console.error(`sbx-sign: ${error.message}\n${ADVICE}`);
    return 1;
  }),
);
