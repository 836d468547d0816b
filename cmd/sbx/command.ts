/** An option of a command. */
export interface Option {
  /** long name without its dashes, such as `timeout` */
  name: string;
  /** one letter */
  short?: string;
  /** placeholder of its value, such as `SECONDS`; absent for a switch */
  value?: string;
  /** may be given more than once */
  many?: boolean;
  about: string;
}

/** A subcommand: one file of this folder. */
export interface Command {
  name: string;
  /** what follows the name, such as `NAME -- CMD…` */
  usage: string;
  summary: string;
  /** what else one should know, a sentence or two each; help of the command itself shows them */
  notes?: string[];
  options: Option[];
  /** how many words may stand before `--`; default none */
  words?: { min: number; max: number };
  /** whether `-- CMD…` may follow */
  program?: boolean;
  /** lines of help, each a command as it would be typed */
  examples: string[];
  /** names of VMs complete its words */
  completesNames?: boolean;
  /** exit code when sbx itself fails, 1 if it does not say: those that run a program keep 1 for the program */
  failure?: number;
  /** Answers the exit code. */
  run(given: Given): Promise<number>;
}

/** Options and words that a user gave, already known to be among those that the command takes. */
export class Given {
  readonly words: string[] = [];
  /** what came after `--` */
  program?: string[];
  readonly #values = new Map<string, string[]>();

  /** Records an option; a switch has no value. */
  add(name: string, value = ""): void {
    this.#values.set(name, [...this.#values.get(name) ?? [], value]);
  }

  on(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    return this.#values.get(name)?.[0];
  }

  list(name: string): string[] {
    return this.#values.get(name) ?? [];
  }
}

export const JSON_OPTION: Option = { name: "json", about: "print JSON" };
export const HELP_OPTION: Option = { name: "help", short: "h", about: "show this help" };
