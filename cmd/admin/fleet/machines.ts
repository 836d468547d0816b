import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import {
  checkFleet,
  endMachine,
  endOf,
  lastAlive,
  listMachines,
  type Machine,
  type MachineEnd,
  makeToken,
  TOKEN_HOURS,
  TOKEN_HOURS_MAX,
  TOKEN_MACHINES_MAX,
} from "../../../lib/fleet/receive/mod.ts";
import { userName } from "../../../lib/base/user/mod.ts";
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
      (await listMachines(dir)).map(async (machine) => {
        const ended = await endOf(dir, machine.machine_id);
        return { ...machine, ...await lastAlive(dir, machine), ...(ended && { ended }) };
      }),
    );
    if (args.has("json")) await printJson({ machines });
    else if (machines.length === 0) await print("no machines");
    else {
      for (const { machine_id, name, team, enrolled_at, sbx, in_force, ended } of machines) {
        const state = ended
          ? `${ended.kind} ${ended.at} by ${ended.by}`
          : sbx === undefined
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
    { name: "machines", value: "N", about: "number of machines that may enrol with it; default 1" },
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

/** `sbx-admin fleet retire` and `revoke`: a machine's end in the fleet. */
function endCommand(verb: "retire" | "revoke", kind: MachineEnd["kind"], summary: string): Command {
  return {
    name: `fleet ${verb}`,
    usage: "DIR MACHINE [--reason TEXT] [--json]",
    summary,
    notes: [
      "MACHINE is a name, or the beginning of an id. Homes that the machine certified end with it; its records stay.",
    ],
    options: [{ name: "reason", value: "TEXT", about: "reason that is noted" }, JSON_OPTION],
    words: { min: 2, max: 2 },
    examples: [`sbx-admin fleet ${verb} /srv/fleet laptop-7`],
    async run(args) {
      const [dir, wanted] = args.words;
      const reason = args.text("reason");
      const machine = await oneMachine(dir, wanted);
      const ended = await endMachine(dir, machine, {
        kind,
        by: userName(),
        ...(reason !== undefined && { reason }),
      });
      if (args.has("json")) {
        await printJson({ ended: ended.map(({ machine_id, name }) => ({ machine_id, name })) });
      } else if (ended.length === 0) {
        await print(`${machine.name} has ended already: sbx-admin fleet machines ${dir}`);
      } else {for (const { machine_id, name } of ended) {
          await print(`${kind} ${name} (${machine_id.slice(0, 16)})`);
        }}
      return 0;
    },
  };
}

export const fleetRetire = endCommand(
  "retire",
  "retired",
  "end a machine that left: it sends nothing more, and is not missed",
);
export const fleetRevoke = endCommand(
  "revoke",
  "revoked",
  "end a machine whose key may be in other hands: nothing of it is taken any more",
);

/** @throws {SbxError} `fleet.machine.unknown`, `fleet.machine.invalid`: several */
async function oneMachine(dir: string, wanted: string) {
  const found: Machine[] = [];
  for (const machine of await listMachines(dir)) {
    // A machine chooses its name, and could have the id of another one.
    if (machine.machine_id === wanted) return machine;
    const isWanted = machine.name === wanted ||
      /^[0-9a-f]{8,64}$/.test(wanted) && machine.machine_id.startsWith(wanted);
    if (isWanted) found.push(machine);
  }
  // A name is free after the end of its machine.
  const active = await Promise.all(found.map(({ machine_id }) => endOf(dir, machine_id)));
  const rest = found.filter((_, at) => active[at] === undefined);
  const [machine, ...others] = rest.length > 0 ? rest : found;
  if (!machine) {
    throw new SbxError("fleet.machine.unknown", `no machine of ${dir} is "${wanted}"`, {
      hint: `sbx-admin fleet machines ${dir} lists names and ids`,
    });
  }
  if (others.length > 0) {
    throw new SbxError("fleet.machine.invalid", `"${wanted}" is the beginning of ${others.length + 1} ids`, {
      hint: "give more characters of the id",
    });
  }
  return machine;
}

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
      for (const { name, team, machine_id, last_seen, ended, sessions, problems } of check.machines) {
        const states = Map.groupBy(sessions, ({ state }) => state);
        const counts = [...states].map(([state, of]) => `${of.length} ${state}`).join(", ") || "no sessions";
        const place = team === undefined ? "" : ` (${team})`;
        await print(
          `${name}${place} ${machine_id.slice(0, 16)}: ${counts}; last seen ${last_seen ?? "never"}${
            ended ? `; ${ended.kind} ${ended.at}` : ""
          }`,
        );
        for (const problem of problems) await print(`  ${problem}`);
      }
      for (const problem of check.problems) await print(`store: ${problem}`);
      await print(
        `${check.ok ? "ok" : "NOT OK"}: ${count(check.events, "event")} of ${
          count(check.machines.length, "machine")
        }`,
      );
    }
    return check.ok ? 0 : 1;
  },
};
