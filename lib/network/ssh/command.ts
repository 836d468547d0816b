/** Command lines of git over SSH. Only one form is taken for git, and the server gets it in that form. */
import { canonicalPath } from "../../base/url/mod.ts";
import type { GitService } from "../git/mod.ts";

/** A git command. */
export interface GitCommand {
  service: GitService;
  /** as the server gets it */
  line: string;
  /** path of the repository for rules, as over HTTPS */
  path: string;
  /** path as the client wrote it, where that differs */
  rawPath?: string;
}

/**
 * `git-upload-pack 'PATH'`, as git's client writes it, or PATH alone in characters that no shell reads. A
 * quote, a backslash or a control character in the path makes it another command: shells differ on them.
 */
const COMMAND =
  // deno-lint-ignore no-control-regex
  /^git[- ](upload|receive)-pack (?:'([^'\\!\x00-\x1f\x7f]+)'|([A-Za-z0-9._/~+@:][A-Za-z0-9._/~+@:-]*))$/;

/**
 * Reads a command line; `undefined` for one that is not of git, `fault` for a path that
 * servers read in different ways.
 */
export function gitCommandOf(command: string): GitCommand | { fault: string } | undefined {
  const [, word, quoted, bare] = COMMAND.exec(command) ?? [];
  if (word === undefined) return undefined;
  const written = quoted ?? bare;
  // An option of the server's program, such as --upload-pack.
  if (written.startsWith("-")) return { fault: "a repository that begins with a dash" };
  const path = written.length > 1 && written.endsWith("/") ? written.slice(0, -1) : written;
  const segments = path.replace(/^\//, "").split("/");
  if (segments.some((each) => each === "" || each === "." || each === "..")) {
    return { fault: "an empty segment or a dot segment in the path of the repository" };
  }
  const escaped = `/${segments.map(encodeSegment).join("/")}`;
  const canonical = canonicalPath(escaped);
  if ("fault" in canonical) return { fault: canonical.fault! };
  const service: GitService = word === "receive" ? "git-receive-pack" : "git-upload-pack";
  return {
    service,
    line: `${service} '${path}'`,
    path: canonical.path!,
    ...(written !== canonical.path && { rawPath: written }),
  };
}

/** A segment of a URL's path: signs that URLs allow stay as over HTTPS. */
function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replace(/%(?:40|3A|2B|3D|2C|26|24)/g, decodeURIComponent);
}
