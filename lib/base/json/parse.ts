import { isDeeper } from "./depth.ts";

/** Nesting levels of JSON from outside (docs/contracts.md §14). */
export const JSON_DEPTH_MAX = 64;

/** JSON nested too deep to be read. To whoever knows no better it is JSON that cannot be parsed. */
export class NestingError extends SyntaxError {
  override name = "NestingError";

  constructor(max: number) {
    super(`nested deeper than ${max} levels`);
  }
}

/**
 * Parses JSON that others wrote. Whatever reads the value (validation, rules, records) recurses, and would overflow the
 * stack on a value that is nested deep enough: such a text is refused here, before there is a value.
 *
 * @param max nesting levels allowed
 * @throws {NestingError} nested deeper
 * @throws {SyntaxError} not JSON
 */
export function parseJson(text: string, max = JSON_DEPTH_MAX): unknown {
  if (isDeeper(text, max)) throw new NestingError(max);
  return JSON.parse(text);
}
