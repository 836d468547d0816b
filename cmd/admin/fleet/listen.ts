/** Options of commands that serve a store: where they listen, and their certificate. */
import { type Arguments, type Command, type Option, usageError } from "../../../lib/base/args/mod.ts";
import { PROGRAM } from "../program.ts";

export const PORT_MAX = 65_535;
const LOOPBACK = "127.0.0.1";

export const LISTEN_OPTIONS: readonly Option[] = [
  { name: "host", value: "ADDRESS", about: `address to listen on; default ${LOOPBACK}` },
  { name: "port", value: "N", about: "port; default any" },
  { name: "cert", value: "FILE", about: "certificate chain in PEM" },
  { name: "key", value: "FILE", about: "its private key in PEM" },
];

/** Address and files of a certificate: without one on loopback alone. @throws {SbxError} usage */
export function listenTerms(
  args: Arguments,
  command: Command,
): { hostname: string; files?: { cert: string; key: string } } {
  const [cert, key] = [args.text("cert"), args.text("key")];
  const hostname = args.text("host") ?? LOOPBACK;
  if ((cert === undefined) !== (key === undefined)) {
    throw usageError({ program: PROGRAM, command }, "--cert and --key belong together");
  }
  if (cert === undefined && !/^(127\.|::1$|localhost$)/.test(hostname)) {
    throw usageError({ program: PROGRAM, command }, `--host ${hostname} needs --cert and --key`);
  }
  return { hostname, ...(cert !== undefined && key !== undefined && { files: { cert, key } }) };
}
