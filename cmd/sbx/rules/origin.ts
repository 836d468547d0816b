/** Options of `sbx credentials add` for secrets that a program or a variable of the host gives. */
import { resolve } from "node:path";
import type { CredentialView } from "../../../lib/client/api/mod.ts";
import type { Arguments, Command } from "../../../lib/base/args/mod.ts";
import { usageError } from "../output.ts";

export const ORIGIN_OPTIONS: NonNullable<Command["options"]> = [
  {
    name: "program",
    about:
      "the command behind -- prints the secret; it runs on this machine, once for all VMs, when one needs it",
  },
  { name: "from-env", value: "NAME", about: "the secret is in this variable of sbx-service" },
  {
    name: "ttl",
    value: "SECONDS",
    about: "use such a secret for so long before asking again; default 900",
  },
  {
    name: "confine",
    about: "with --program: it finds no homes, sockets and network, and writes nothing that stays",
  },
  {
    name: "may-read",
    value: "PATH",
    about: "with --confine: file or folder that it may read besides the system's (repeatable)",
    many: true,
  },
  { name: "may-connect", about: "with --confine: it may reach the network" },
];

type Origin = Pick<NonNullable<CredentialView["origin"]>, "program" | "env" | "ttl_s" | "confine">;

/** The origin that the options name. @throws {SbxError} `usage.invalid` */
export function originOf(command: Command, args: Arguments): Origin | undefined {
  const env = args.text("from-env");
  const ttl_s = args.number("ttl", { min: 10, max: 604_800 });
  const confine = confineOf(command, args);
  if (!args.has("program") && env === undefined) {
    if (ttl_s === undefined) return undefined;
    throw usageError(
      command,
      "--ttl without --program or --from-env",
      "a typed key is used until it is revoked",
    );
  }
  if (args.has("program") && !args.program?.length) {
    throw usageError(
      command,
      "--program needs a command",
      "write it behind --, as: --program -- pass show github",
    );
  }
  const program = args.has("program") ? args.program : undefined;
  return {
    ...(program && { program }),
    ...(env !== undefined && { env }),
    ...(confine && { confine }),
    ...(ttl_s !== undefined && { ttl_s }),
  };
}

function confineOf(command: Command, args: Arguments): Origin["confine"] {
  const read = args.list("may-read").map((path) => resolve(path));
  const network = args.has("may-connect");
  if (!args.has("confine")) {
    if (read.length === 0 && !network) return undefined;
    throw usageError(command, "--may-read and --may-connect are for --confine", "add --confine");
  }
  if (!args.has("program")) throw usageError(command, "--confine without --program");
  return { ...(read.length > 0 && { read }), ...(network && { network }) };
}
