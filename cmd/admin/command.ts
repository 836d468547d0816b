/** One subcommand: its words, its line in the help, and what it does. */
export interface Command {
  /** such as `manifest check` */
  name: string;
  /** what comes after the name */
  synopsis: string;
  summary: string;
  /** Answers the exit code. */
  run(args: string[]): Promise<number>;
}
