/** Images that a Dockerfile begins with, or copies from: before the build, for the logins that they need. */
import { SbxError } from "../../base/error/mod.ts";
import type { Features } from "./context.ts";
import { parseReference, type Reference } from "../../release/environment/mod.ts";

/** Most images that are read. */
const IMAGES_MAX = 100;

/**
 * Images of registries in a Dockerfile. Which ones a build pulls is buildah's decision: a name that only it
 * can find is not among them.
 *
 * @param args build arguments of the person
 */
export function baseReferences(dockerfile: string, args: Readonly<Record<string, string>>): Reference[] {
  const variables = new Map<string, string>();
  const stages = new Set(["scratch"]);
  const found = new Map<string, Reference>();
  let hasStage = false;
  for (const { name, rest } of instructionsOf(dockerfile)) {
    const expand = (text: string) => expanded(text, variables);
    if (name === "ARG" && !hasStage) {
      for (const [, key, value] of rest.matchAll(/([A-Za-z_]\w*)(?:=("[^"]*"|'[^']*'|\S*))?/g)) {
        const given = Object.hasOwn(args, key) ? args[key] : value?.replace(/^(["'])(.*)\1$/, "$2");
        if (given !== undefined) variables.set(key, expand(given));
      }
    }
    const images: string[] = [];
    if (name === "FROM") {
      hasStage = true;
      const [image = "", as, stage] = rest.replace(/^(?:--\S+\s+)*/, "").split(/\s+/);
      images.push(expand(image));
      if (as?.toUpperCase() === "AS" && stage) stages.add(stage.toLowerCase());
    } else if (name === "COPY" || name === "ADD") {
      images.push(.../^(?:--\S+\s+)*?--from=(\S+)/.exec(rest)?.slice(1) ?? []);
    } else if (name === "RUN") {
      for (const [, mount] of rest.matchAll(/--mount=(\S+)/g)) {
        images.push(.../(?:^|,)from=([^,]+)/.exec(mount)?.slice(1) ?? []);
      }
    }
    for (const image of images) {
      const reference = stages.has(image.toLowerCase()) ? undefined : referenceOf(image);
      if (reference && found.size < IMAGES_MAX) found.set(reference.canonical, reference);
    }
  }
  return [...found.values()];
}

/** Images of registries that features are. */
export function featureReferences(features?: Pick<Features, "features">): Reference[] {
  return Object.keys(features?.features ?? {}).flatMap((name) =>
    /^[^./][^/]*\.[^/]*\//.test(name) ? referenceOf(name) ?? [] : []
  );
}

/** Instructions with their arguments on one line. */
function instructionsOf(dockerfile: string): { name: string; rest: string }[] {
  const escape = /^#\s*escape\s*=\s*`/im.test(dockerfile.split(/^(?!#)/m, 1)[0]) ? "`" : "\\";
  const lines = dockerfile.split(/\r?\n/).filter((line) => !line.trimStart().startsWith("#"));
  const joined: string[] = [];
  let begun = "";
  for (const line of lines) {
    const text = line.trimEnd();
    if (text.endsWith(escape)) begun += `${text.slice(0, -1)} `;
    else {
      joined.push(begun + text);
      begun = "";
    }
  }
  joined.push(begun);
  return joined.flatMap((line) => {
    const [, name, rest] = /^\s*([A-Za-z]+)\s+(.*)$/.exec(line) ?? [];
    return name === undefined ? [] : [{ name: name.toUpperCase(), rest: rest.trim() }];
  });
}

/** `$NAME`, `${NAME}`, `${NAME:-default}` and `${NAME:+other}`. */
function expanded(text: string, variables: ReadonlyMap<string, string>): string {
  return text.replace(
    /\$(?:(\w+)|\{(\w+)(?::([-+])([^}]*))?\})/g,
    (_, plain?: string, braced?: string, sign?: string, word = "") => {
      const value = variables.get(plain ?? braced ?? "") ?? "";
      if (sign === "-") return value === "" ? word : value;
      return sign === "+" ? (value === "" ? "" : word) : value;
    },
  );
}

function referenceOf(image: string): Reference | undefined {
  // The number of a stage.
  if (image === "" || /^\d+$/.test(image)) return undefined;
  try {
    const reference = parseReference(image);
    return reference.kind === "registry" && reference.registry !== "localhost" ? reference : undefined;
  } catch (error) {
    if (error instanceof SbxError) return undefined;
    throw error;
  }
}
