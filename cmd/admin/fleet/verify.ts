import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { checkFleet } from "../../../lib/fleet/receive/mod.ts";

/** `sbx-admin fleet verify`: exits with 1 when a row is missing, was changed or is disputed. */
export const fleetVerify: Command = {
  name: "fleet verify",
  usage: "DIR [--json]",
  summary: "verify that every session of every machine is there, unaltered",
  notes: ["The exit code is 1 if there is a gap, a fork, a loss, a changed segment or a silent machine."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet verify /srv/fleet"],
  async run(args) {
    const check = await checkFleet(args.words[0]);
    if (args.has("json")) await printJson(check);
    else {
      for (const { name, team, machine_id, last_seen, sessions, problems } of check.machines) {
        const states = Map.groupBy(sessions, ({ state }) => state);
        const counts = [...states].map(([state, of]) => `${of.length} ${state}`).join(", ") || "no sessions";
        const place = team === undefined ? "" : ` (${team})`;
        await print(
          `${name}${place} ${machine_id.slice(0, 16)}: ${counts}; last seen ${last_seen ?? "never"}`,
        );
        for (const problem of problems) await print(`  ${problem}`);
      }
      await print(
        `${check.ok ? "ok" : "NOT OK"}: ${count(check.events, "event")} of ${
          count(check.machines.length, "machine")
        }`,
      );
    }
    return check.ok ? 0 : 1;
  },
};
