import { SbxError } from "../error/mod.ts";

/** The options and words of one call, checked against the command's declaration. */
export class Arguments {
  /** positional words, without the command's name */
  readonly words: string[];
  /** the words after `--`, for commands that run a program */
  readonly program?: string[];
  readonly #options: ReadonlyMap<string, string[]>;

  /** @param options values by long name; a switch has an empty list */
  constructor(words: string[], options: ReadonlyMap<string, string[]>, program?: string[]) {
    this.words = words;
    this.#options = options;
    this.program = program;
  }

  /** Returns true if the option is present. */
  has(name: string): boolean {
    return this.#options.has(name);
  }

  /** Returns the value of an option. */
  text(name: string): string | undefined {
    return this.#options.get(name)?.[0];
  }

  /** Returns the values of a repeatable option. */
  list(name: string): string[] {
    return this.#options.get(name) ?? [];
  }

  /** Returns the value of a numeric option. @throws {SbxError} `usage.invalid`: not a number from `min` to `max` */
  number(
    name: string,
    { min, max, whole = true }: { min: number; max: number; whole?: boolean },
  ): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (text.trim() !== "" && value >= min && value <= max && (!whole || Number.isInteger(value))) {
      return value;
    }
    throw new SbxError("usage.invalid", `invalid value "${text}" of --${name}`, {
      hint: `give a ${whole ? "whole " : ""}number from ${min} to ${max}`,
    });
  }
}
