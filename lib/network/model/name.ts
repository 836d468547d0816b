/** Model names of a request, wherever a provider looks for them. */
import { isObject } from "../../base/object/mod.ts";
import { type Json, listOf, objectOf } from "./json.ts";
import { JSON_DEPTH_MAX, NAME_MAX } from "./limit.ts";
import { toolsOf } from "./api.ts";

/** Names of models, as far as they are names. */
export interface Names {
  names: Set<string>;
  /** why they are unknown, as a clause */
  fault?: string;
}

const IN_PATH = [
  /^\/model\/(.+)\/[a-z-]+$/i,
  /\/(?:models|tunedModels|endpoints)\/(?!count-tokens:)([^/:]+):\w+$/,
  /\/(?:deployments|engines)\/([^/]+)\//i,
  /\/(?:workflows|image_generation)\/(accounts\/[^/]+\/models\/[^/]+)/i,
];
/** Providers that take a name in the path for the model, regardless of the body. */
const PATH_FIRST = new Set(["azure", "bedrock"]);

/** Finds every name of a model in a request. */
export function namesOf(
  { path, query, provider }: { path: string; query: string; provider: string | undefined },
  body: Json,
  anywhere: boolean,
): Names {
  const inPath = IN_PATH.map((pattern) => pattern.exec(path)?.[1]).find((name) => name !== undefined);
  if (inPath !== undefined && provider !== undefined && PATH_FIRST.has(provider)) return checked([inPath]);
  // The path comes first: of several names, the call is counted as one of that.
  const values = [
    ...(inPath === undefined ? [] : [inPath]),
    ...(anywhere ? modelsIn(body) : valuesAtTop(body)),
  ];
  values.push(...new URLSearchParams(query).getAll("model"));
  const folded = Object.keys(body).find((key) => !KEYS.has(key) && KEYS.has(fold(key)));
  if (folded !== undefined) {
    return { names: new Set(), fault: `its body has the key ${JSON.stringify(folded)}` };
  }
  const checkedNames = checked(values);
  const agent = AGENTS.find((key) => typeof body[key] === "string");
  if (checkedNames.names.size > 0 || agent === undefined || provider === undefined) return checkedNames;
  return { names: new Set(), fault: `it names an agent (${agent}) instead of its model` };
}

/** Keys that name an agent, whose model only the provider knows. */
const AGENTS = ["agent", "agent_id", "assistant_id"];

const KEYS = new Set(["model", "models", "stream"]);

/** Key as lenient parsers compare it: `ſ` and `K` fold to ASCII letters; NUL ends a text or is ignored. */
function fold(key: string): string {
  // deno-lint-ignore no-control-regex
  return key.replace(/[\x00-\x20]/g, "").toUpperCase().toLowerCase();
}

/**
 * Values of `model`, of the list `models` (fallbacks), of tools that are models themselves,
 * and of changes among the input.
 */
function* valuesAtTop(body: Json): Generator<unknown> {
  if (body.model !== undefined && body.model !== null) yield body.model;
  yield* listOf(body.models);
  for (const { type, model } of toolsOf(body)) {
    if (model !== undefined && type !== undefined && type !== "function" && type !== "custom") yield model;
  }
  for (const item of listOf(body.input)) {
    const { type, model } = objectOf(item);
    if (type === "configuration_update" && model !== undefined) yield model;
  }
}

/** Names of models anywhere in a value, as they are written. */
export function modelsIn(value: unknown): Set<string> {
  const names = new Set<string>();
  collectModels(value, names, 0);
  return names;
}

/** A generator takes as long for each name as the name is deep: seconds for a body of 8 MiB. */
function collectModels(value: unknown, names: Set<string>, depth: number): void {
  if (depth > JSON_DEPTH_MAX) return;
  if (Array.isArray(value)) { for (const item of value) collectModels(item, names, depth + 1); }
  else if (isObject(value)) {
    for (const key in value) {
      const item = value[key];
      if (key === "model" && typeof item === "string") names.add(item);
      else collectModels(item, names, depth + 1);
    }
  }
}

function checked(values: readonly unknown[]): Names {
  const names = new Set<string>();
  for (const value of values) {
    const isName = typeof value === "string" && value.length <= NAME_MAX && /^[\x21-\x7e]+$/.test(value);
    if (!isName) return { names, fault: "its model is not a name" };
    // Google writes the collection in front of the name, and its project.
    names.add(value.replace(/^(?:projects\/[^/]+\/locations\/[^/]+\/)?(?:publishers\/[^/]+\/)?models\//, ""));
  }
  if (names.size < 2) return { names };
  return { names, fault: `it names several models: ${[...names].slice(0, 4).join(", ")}` };
}
