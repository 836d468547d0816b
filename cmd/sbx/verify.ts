import { SbxError } from "../../lib/error/mod.ts";
import { home } from "../../lib/home/mod.ts";
import { verifyLedger } from "../../lib/ledger/mod.ts";
import { sessionPaths } from "../../lib/session/paths.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { print, printJson } from "./output.ts";

const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export const command: Command = {
  name: "verify",
  usage: "SESSION|FILE [--json]",
  summary:
    "check a session's record offline: every event against the hash chain; exit code 1 if it does not hold",
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx verify 0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e", "sbx verify ./session.db --json"],
  async run(given) {
    const [what] = given.words;
    const path = SESSION_ID.test(what) ? sessionPaths(home(), what).ledger : what;
    const { ok, events, first_bad } = await verifyLedger(path).catch((error) => {
      if (path !== what || (error as SbxError).code !== "ledger.not_found") throw error;
      throw new SbxError("ledger.not_found", `"${what}" is neither a session's id nor a file`, {
        hint: "give a session's id (sbx info NAME shows it as session) or a file",
      });
    });
    if (given.on("json")) await printJson({ ok, path, events, first_bad });
    else if (ok) await print(`${path}: ${events} events, and every one is as it was recorded`);
    else await print(`${path}: does NOT hold after ${events} good events: ${describe(first_bad)}`);
    return ok ? 0 : 1;
  },
};

function describe(bad: { sequence?: number; event_id?: string; reason: string } | undefined): string {
  const which = bad?.event_id
    ? `event ${bad.event_id}: `
    : bad?.sequence
    ? `event number ${bad.sequence}: `
    : "";
  return which + (bad?.reason ?? "unknown");
}
