/** The machine whose sbx a command is for: this one, or another one named by --host or SBX_HOST. */
import { SbxError } from "../../lib/base/error/mod.ts";
import { ALIASES } from "./commands.ts";

export const HOST_VARIABLE = "SBX_HOST";
const HOST_OPTION = "--host";

/** Commands that need only the API: the others read or change files of this machine, or open its ports. */
export const REMOTE_COMMANDS: ReadonlySet<string> = new Set(
  `allow asks corp costs cp create credentials delete deny diff events exec findings fork help info
    jobs list logs mcp net pause policy pull purge push restore resume review run save sessions
    settings shell snapshots suspend template timeline tree undo version why`.split(/\s+/),
);

let address: string | undefined;

/** Address of the other machine. @returns undefined: this one */
export function remoteHost(): string | undefined {
  return address;
}

/**
 * Takes the machine from the front of a command line, or from the environment.
 *
 * @returns the command line without it
 * @throws {SbxError} `usage.invalid`: no address; `host.local_command`: the
 * command works on this machine only
 */
export function takeHost(
  argv: string[],
  env: { get(name: string): string | undefined } = Deno.env,
): string[] {
  const [first = "", second, ...rest] = argv;
  const inline = first.startsWith(`${HOST_OPTION}=`);
  const isGiven = inline || first === HOST_OPTION;
  const given = inline ? first.slice(HOST_OPTION.length + 1) : second;
  if (isGiven && !given) {
    throw new SbxError("usage.invalid", `${HOST_OPTION} needs the address of a machine`, {
      hint: "such as sbx --host ssh://build.example list",
    });
  }
  address = isGiven ? given : env.get(HOST_VARIABLE) || undefined;
  const command = !isGiven ? argv : inline ? argv.slice(1) : rest;
  const name = command[0];
  if (
    address === undefined || name === undefined || name.startsWith("-") ||
    REMOTE_COMMANDS.has(ALIASES.get(name) ?? name)
  ) {
    return command;
  }
  throw new SbxError(
    "host.local_command",
    `sbx ${name} works on this machine only, not on ${withoutUser(address)}`,
    {
      hint: isGiven ? `leave out ${HOST_OPTION}, or run it there` : `unset ${HOST_VARIABLE}, or run it there`,
    },
  );
}

/** Refuses what would name a folder or a file of this machine. @throws {SbxError} `host.local_command` */
export function requireThisMachine(what: string): void {
  if (address === undefined) return;
  throw new SbxError(
    "host.local_command",
    `${what}: it is on this machine, and the VM is on ${withoutUser(address)}`,
  );
}

/** An address in a form safe to show: the part before `@` may be a password. */
export function withoutUser(text: string): string {
  return text.replace(/^([a-z]+:\/\/)[^/]*@/, "$1");
}
