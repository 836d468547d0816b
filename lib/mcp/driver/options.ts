import type { AggregatorDefinition } from "../definition.ts";
import type { CredentialResolver, ServerLogins, StdioStarter } from "../outbound/mod.ts";
import type { ListsOptions } from "./lists.ts";

export interface AggregatorOptions extends ListsOptions {
  /** in trust order, see `definitionsOf` */
  definitions: AggregatorDefinition[];
  /** folder accessible to this user only; holds the private wire's socket while it is being accepted */
  dir: string;
  /** credential broker; without it servers with `auth` are not connected */
  resolve?: CredentialResolver;
  /** logins of people at servers; without it a server that needs one is not connected */
  logins?: ServerLogins;
  /** starts the programs of stdio servers; without it they are not connected */
  startStdio?: StdioStarter;
  /** program and arguments; default: the program installed beside this one; null: not installed */
  command?: string[] | null;
  /** `ms` (docs/design/contracts/08-mcp.md §8) */
  timeouts?: { request: number; call: number };
  /** receives failures that no caller waits for */
  log?(line: string): void;
}
