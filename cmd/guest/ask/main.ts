/** sbx-ask: asks the user of this VM for access to a host, with a reason, and waits for the answer. */
import { plain, run } from "./program.ts";
import { readArguments, type Wanted } from "./request.ts";

const ABOUT = `sbx-ask HOST --why TEXT
sbx-ask URL --why TEXT [--method METHOD]
sbx-ask --list

Asks your user for access over HTTPS: to a host, or to one path of it with one method (default GET). Your user
reads TEXT and answers outside of this VM; it waits for that up to 100 seconds. A question without an answer
stays open, and the same command waits for it again. --list shows open questions. --json prints JSON.

Exit code 0: allowed, or your user is asked at the request; 1: no; 75: not answered yet.
`;

const wanted = wantedOf(Deno.args);
if ("help" in wanted) {
  console.log(ABOUT.trimEnd());
  Deno.exit(0);
}

Deno.exit(
  await run(wanted, { out: console.log, note: console.error }).catch((error: Error) => {
    console.error(`sbx-ask: ${plain(error.message)}`);
    return 1;
  }),
);

function wantedOf(args: string[]): Wanted {
  try {
    return readArguments(args);
  } catch (error) {
    console.error(`sbx-ask: ${plain((error as Error).message)}\n\n${ABOUT.trimEnd()}`);
    Deno.exit(2);
  }
}
