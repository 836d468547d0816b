import type { VmSummary } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION, type Option } from "../../../lib/base/args/mod.ts";
import { asSbxError, SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { printError } from "../output.ts";

/**
 * Runs an action on each VM of a list. Failures are reported and do not stop the others.
 *
 * @param doing gerund of the action for errors, such as `deleting`
 * @returns names of the VMs without a failure
 */
export async function eachVm(
  names: readonly string[],
  doing: string,
  json: boolean,
  action: (name: string) => Promise<void>,
): Promise<string[]> {
  const done: string[] = [];
  for (const name of names) {
    try {
      await action(name);
      done.push(name);
    } catch (error) {
      printError(asSbxError(error, `${doing} ${name}`), json);
    }
  }
  return done;
}

/** Switch for all VMs in place of names. */
export const ALL_OPTION: Option = { name: "all", short: "a", about: "all VMs that it can be done with" };

/**
 * Names of all VMs on which an action is possible now, but for VMs of MCP servers.
 *
 * @throws {SbxError} `usage.invalid`: names were given too
 */
export async function allVms(
  client: Client,
  action: VmSummary["available_actions"][number],
  args: Arguments,
) {
  if (args.words.length > 0) {
    throw new SbxError("usage.invalid", "--all cannot be combined with names of VMs", {
      hint: "give --all for every VM, or names for some",
    });
  }
  const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
  return vms.filter((vm) => vm.available_actions.includes(action) && !vm.parent).map(({ name }) => name);
}

/** Action on VMs. */
export interface VmAction {
  /** name of the command, and last segment of its route */
  name: string;
  summary: string;
  /** gerund, such as `deleting` */
  doing: string;
  /** past participle, such as `deleted`; key of the names in the JSON output */
  done: string;
  examples: string[];
}

/** Creates a command that runs an action on one or more VMs. */
export function vmCommand({ name, summary, doing, done, examples }: VmAction): Command {
  return {
    name,
    usage: "NAME… [--json]",
    summary,
    options: [JSON_OPTION],
    words: { min: 1, max: Infinity },
    completes: ["vms"],
    examples,
    async run(args) {
      const json = args.has("json");
      const client = await connect();
      const names = await eachVm(args.words, doing, json, async (vm) => {
        await client.json("POST", `/vms/${segment(vm)}/${name}`);
        if (!json) await print(`${done} ${vm}`);
      });
      if (json) await printJson({ [done]: names });
      return names.length === args.words.length ? 0 : 1;
    },
  };
}
