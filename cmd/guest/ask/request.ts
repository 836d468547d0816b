/** The command line of sbx-ask. */

/** A question about open asks, or about access. */
export type Wanted =
  | { help: true }
  | { list: true; json: boolean }
  | { access: Access; json: boolean };

/** Arguments of the host's tool `request_access`. */
export interface Access {
  host: string;
  why: string;
  method?: string;
  path?: string;
  host_access?: true;
}

/** Reads the command line. @throws {Error} it is not understood */
export function readArguments(args: readonly string[]): Wanted {
  const words: string[] = [];
  const options: { why?: string; method?: string } = {};
  let json = false, list = false;
  for (let at = 0; at < args.length; at++) {
    const [, name, given] = /^(--[a-z]+)(?:=(.*))?$/s.exec(args[at]) ?? [];
    if (args[at] === "-h" || name === "--help") return { help: true };
    if (name === "--json" && given === undefined) json = true;
    else if (name === "--list" && given === undefined) list = true;
    else if (name === "--why" || name === "--method") {
      const value = given ?? args[++at];
      if (value === undefined || value === "") throw new Error(`${name} needs a text`);
      options[name.slice(2) as "why" | "method"] = value;
    } else if (args[at].startsWith("-")) throw new Error(`unknown option ${args[at]}`);
    else words.push(args[at]);
  }
  if (args.length === 0) return { help: true };
  if (list) {
    if (words.length > 0 || options.why !== undefined) throw new Error("--list takes no host");
    return { list, json };
  }
  if (words.length !== 1) throw new Error("name one host or URL");
  if (options.why === undefined) {
    throw new Error('--why is missing: say what it is for, such as --why "read its API docs"');
  }
  return { access: accessOf(words[0], options.why, options.method), json };
}

/** Access to a host, or to the path of a URL. @throws {Error} */
function accessOf(word: string, why: string, method?: string): Access {
  const [, scheme, rest = word] = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is.exec(word) ?? [];
  if (scheme !== undefined && scheme.toLowerCase() !== "https") {
    throw new Error(`only HTTPS can be asked for, not ${scheme}://`);
  }
  const [, authority, path] = /^([^/?#]*)([^]*)$/.exec(rest)!;
  const [, host, port] = /^(.*?)(?::(\d+))?$/s.exec(authority)!;
  if (host === "" || host.includes("@")) throw new Error(`"${word}" names no host`);
  if (port !== undefined && port !== "443") throw new Error("only HTTPS on port 443 can be asked for");
  const own = path.replace(/[?#][^]*$/, "");
  if (own === "" && method === undefined) return { host, why, host_access: true };
  return { host, why, path: own || "/", ...method !== undefined && { method: method.toUpperCase() } };
}
