/** `.dockerignore`, as Docker reads it (github.com/moby/patternmatcher). */
import { posix } from "node:path";
import { RE2JS } from "re2js";
import { SbxError } from "../../base/error/mod.ts";

/** Most `bytes` of the file, and most patterns. */
const TEXT_MAX = 1024 * 1024, PATTERNS_MAX = 10_000;
/** Characters that have a meaning in regular expressions, and none in patterns. */
const PLAIN = new Set(".+()|{}$");

interface Pattern {
  regexp: RE2JS;
  /** the files that match are taken again */
  isException: boolean;
}

/** The patterns of one `.dockerignore`. */
export class Ignore {
  readonly #patterns: Pattern[];

  /**
   * @param name of the file, for errors
   * @throws {SbxError} `build.ignore_invalid`
   */
  constructor(text: string, name = ".dockerignore") {
    const patterns = text.length <= TEXT_MAX ? patternsOf(text) : [];
    if (text.length > TEXT_MAX || patterns.length > PATTERNS_MAX) {
      throw invalid(name, `has more than ${TEXT_MAX} bytes or ${PATTERNS_MAX} patterns`);
    }
    this.#patterns = patterns.map((pattern) => {
      const isException = pattern.startsWith("!");
      const path = isException ? pattern.slice(1) : pattern;
      try {
        if (path === "") throw new Error("an exception without a path");
        return { regexp: RE2JS.compile(regexpOf(path)), isException };
      } catch (cause) {
        throw invalid(name, `has the pattern "${pattern.slice(0, 200)}", which cannot be read`, cause);
      }
    });
  }

  /** True where an exception may take a file of an ignored folder. */
  get hasExceptions(): boolean {
    return this.#patterns.some(({ isException }) => isException);
  }

  /** @param path relative to the context, with `/` */
  ignores(path: string): boolean {
    const parts = path.split("/");
    const paths = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
    let isIgnored = false;
    for (const { regexp, isException } of this.#patterns) {
      // A pattern that would change nothing is not tried.
      if (isException === isIgnored && paths.some((each) => regexp.matches(each))) isIgnored = !isException;
    }
    return isIgnored;
  }
}

function patternsOf(text: string): string[] {
  return text.replace(/^\ufeff/, "").split("\n").filter((line) => !line.startsWith("#")).flatMap((line) => {
    const trimmed = line.trim();
    if (trimmed === "") return [];
    const isException = trimmed.startsWith("!");
    const written = isException ? trimmed.slice(1).trim() : trimmed;
    if (written === "") return ["!"];
    const clean = posix.normalize(written).replace(/(?<=.)\/$/, "").replace(/^\/(?=.)/, "");
    return [isException ? `!${clean}` : clean];
  });
}

function regexpOf(pattern: string): string {
  let regexp = "^";
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at];
    if (char === "*" && pattern[at + 1] === "*") {
      at += pattern[at + 2] === "/" ? 2 : 1;
      regexp += at + 1 === pattern.length ? ".*" : "(.*/)?";
    } else if (char === "*") regexp += "[^/]*";
    else if (char === "?") regexp += "[^/]";
    else if (PLAIN.has(char)) regexp += `\\${char}`;
    else if (char === "\\") regexp += `\\${pattern[++at] ?? "\\"}`;
    else regexp += char;
  }
  return `${regexp}$`;
}

function invalid(name: string, problem: string, cause?: unknown): SbxError {
  return new SbxError("build.ignore_invalid", `${name} ${problem}`, {
    cause,
    hint: "docs.docker.com/build/concepts/context describes its patterns",
  });
}
