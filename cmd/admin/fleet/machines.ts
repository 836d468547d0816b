import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import {
  checkFleet,
  lastAlive,
  listMachines,
  makeToken,
  TOKEN_HOURS,
  TOKEN_HOURS_MAX,
  TOKEN_MACHINES_MAX,
} from "../../../lib/fleet/receive/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";

/** `sbx-admin fleet machines`: machines of a store, with the active sbx, bundle and configuration. */
export const fleetMachines: Command = {
  name: "fleet machines",
  usage: "DIR [--json]",
  summary: "list the enrolled machines, each with its active sbx, bundle and configuration",
  notes: ["Machines report these values themselves, once a minute; --json has the hashes."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet machines /srv/fleet"],
  async run(args) {
    const [dir] = args.words;
    const machines = await Promise.all(
      (await listMachines(dir)).map(async (machine) => ({ ...machine, ...await lastAlive(dir, machine) })),
    );
    if (args.has("json")) await printJson({ machines });
    else if (machines.length === 0) await print("no machines");
    else {
      for (const { machine_id, name, team, enrolled_at, sbx, in_force } of machines) {
        const state = sbx === undefined
          ? "never heard of"
          : `sbx ${sbx}, ${in_force?.bundle === undefined ? "no bundle" : `bundle ${in_force.bundle}`}` +
            (in_force?.state === undefined || ["ok", "absent"].includes(in_force.state)
              ? ""
              : `, corp.toml is broken (${in_force.state})`);
        await print(
          `${machine_id.slice(0, 16)}  ${enrolled_at}  ${name}${
            team === undefined ? "" : ` (${team})`
          }  ${state}`,
        );
      }
    }
    return 0;
  },
};

/** `sbx-admin fleet token`: enrols machines. */
export const fleetToken: Command = {
  name: "fleet token",
  usage: "DIR [--team NAME] [--name NAME | --machines N] [--hours N] [--json]",
  summary: "make a token with which one machine, or several, enrol",
  options: [
    { name: "team", value: "NAME", about: "team of the machines, for questions by team" },
    { name: "name", value: "NAME", about: "the only name with which a machine enrols" },
    { name: "machines", value: "N", about: "how many machines enrol with it; default 1" },
    { name: "hours", value: "N", about: `how long it is good for; default ${TOKEN_HOURS}` },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: [
    "sbx-admin fleet token /srv/fleet --team payments",
    "sbx-admin fleet token /srv/fleet --machines 500 --hours 72",
  ],
  async run(args) {
    const hours = args.number("hours", { min: 1, max: TOKEN_HOURS_MAX });
    const machines = args.number("machines", { min: 1, max: TOKEN_MACHINES_MAX });
    const [team, name] = [args.text("team"), args.text("name")];
    const made = await makeToken(args.words[0], {
      ...(hours !== undefined && { hours }),
      ...(machines !== undefined && { machines }),
      ...(team !== undefined && { team }),
      ...(name !== undefined && { name }),
    });
    if (args.has("json")) await printJson(made);
    else {
      await print(made.token);
      const whom = name === undefined ? count(made.machines, "machine") : `the machine "${name}"`;
      note(`for ${whom}, until ${made.expires_at}: sbx fleet enrol < token.txt`);
    }
    return 0;
  },
};

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
