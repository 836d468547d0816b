/** Passwords in command lines, behind options whose names do not say so: `mysql -pPASSWORD`, `sshpass -p PASSWORD`. */
import { isPlaceholder } from "./assignment.ts";
import type { Span } from "./span.ts";

/** Between an option and its value, also in a list of arguments in JSON. */
const GAP = "(?:\\\\{0,4}[\"']?[\\s,=]{1,4})?";
/** Programs, the option, and whether its value may be an argument of its own. */
const OPTIONS: readonly (readonly [programs: string, option: string, isApart: boolean])[] = [
  ["(?:mysql|mariadb)[a-z-]{0,20}|mycli|7z[arz]?|unrar|rar", "-p", false],
  ["sshpass|mongo[a-z]{0,10}|cqlsh|rabbitmqadmin|netexec|nxc|crackmapexec|evil-winrm", "-p", true],
  ["(?:docker|podman|buildah|skopeo|nerdctl|oras|az|registry|auth)\\W{1,4}login", "-p", true],
  ["redis-cli|redis-benchmark|valkey-cli|keydb-cli", "-a", true],
  ["mosquitto_(?:pub|sub|rr)|sqlcmd|bcp|zip|unzip|ipmitool", "-P", true],
  ["ldap(?:search|add|modify|delete|passwd|whoami|compare|modrdn|exop)", "-w", true],
  ["smbclient|rpcclient|smbmap", "-U[^%\\n]{1,100}%", false],
];
/** Any of these options: most texts have none. */
const HINT = /[\s"']-[paPwU]/;
/** Characters of a command behind its name in which the option stands. */
const COMMAND_MAX = 400;

const PROGRAMS = new RegExp(
  `(?<![\\w.-])(?:${OPTIONS.map(([programs]) => `(${programs})`).join("|")})(?![\\w.-])`,
  "g",
);
/** A value in quotes, or a word. */
const VALUE =
  `(?:\\\\{0,4}(?<quote>["'])(?<quoted>(?!\\k<quote>)[^\\\\\r\\n]{1,300}?)(?=\\\\{0,4}\\k<quote>)|(?<word>[^\\s"'\`\\\\;&|<>(),]{1,300}))`;
const VALUES = OPTIONS.map(([, option, isApart]) =>
  new RegExp(`(?<=[\\s"'])(?:${option})${isApart ? GAP : ""}${VALUE}`)
);
/** End of a command: of its line, or the next one begins. */
const END = /[\r\n;|&]|\\[rn]/;
/** Ports, of which `-p` is the option of others. */
const PORTS = /^\d{1,5}(?::\d{1,5}){1,2}$/;

/** Passwords in command lines of known programs. */
export function findInCommands(text: string): Span[] {
  if (!HINT.test(text)) return [];
  return Array.from(text.matchAll(PROGRAMS)).flatMap(({ index, 0: { length }, ...groups }) => {
    const begin = index + length;
    const rest = text.slice(begin, begin + COMMAND_MAX);
    const end = rest.search(END);
    const kind = OPTIONS.findIndex((_, at) => groups[at + 1] !== undefined);
    const found = VALUES[kind].exec(end < 0 ? rest : rest.slice(0, end));
    const value = found?.groups?.quoted ?? found?.groups?.word;
    if (!found || !value || value.startsWith("-") || PORTS.test(value) || isPlaceholder(value)) return [];
    const start = begin + found.index + found[0].length - value.length;
    return [{ start, end: start + value.length }];
  });
}
