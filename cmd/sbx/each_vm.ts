import { segment } from "../../lib/client/mod.ts";
import { asSbxError } from "../../lib/base/error/mod.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { print, printError, printJson } from "./output.ts";

/**
 * Does the same to each VM of a list; one that fails is told, and does not keep the others.
 *
 * @param doing what it is, such as `deleting`
 * @returns names of those that it was done to
 */
export async function eachVm(
  names: readonly string[],
  doing: string,
  json: boolean,
  work: (name: string) => Promise<void>,
): Promise<string[]> {
  const done: string[] = [];
  for (const name of names) {
    try {
      await work(name);
      done.push(name);
    } catch (error) {
      printError(asSbxError(error, `${doing} ${name}`), json);
    }
  }
  return done;
}

/** What a command does to each VM that it is given. */
export interface VmWork {
  /** of the command, and the last segment of its route */
  name: string;
  summary: string;
  method: "POST" | "DELETE";
  /** such as `deleting` */
  doing: string;
  /** such as `deleted`; its JSON is an object with the names under this key */
  done: string;
  examples: string[];
}

/** A command that does one thing to one VM or many. */
export function vmCommand({ name, summary, method, doing, done, examples }: VmWork): Command {
  return {
    name,
    usage: "NAME… [--json]",
    summary,
    options: [JSON_OPTION],
    words: { min: 1, max: Infinity },
    completesNames: true,
    examples,
    async run(given) {
      const json = given.on("json");
      const client = await connect();
      const names = await eachVm(given.words, doing, json, async (vm) => {
        await client.json(method, `/vms/${segment(vm)}/${name}`);
        if (!json) await print(`${done} ${vm}`);
      });
      if (json) await printJson({ [done]: names });
      return names.length === given.words.length ? 0 : 1;
    },
  };
}
