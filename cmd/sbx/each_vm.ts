import { asSbxError } from "../../lib/error/mod.ts";
import { printError } from "./output.ts";

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
