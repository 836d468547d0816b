/** Rules that allow the recorded events. */
import type { Event } from "../../event/mod.ts";
import { ANY_ARGUMENTS, type Need } from "./need.ts";
import { canName, quote, shown } from "./text.ts";

/** Event ids that a rule names. */
const IDS_SHOWN = 3;
/** Most values, and characters of them, of one rule. */
const VALUES_MAX = 100;
const CHARACTERS_MAX = 16 * 1024;
/**
 * Programs with arguments of their own that are named one by one; with more, the program is allowed with any.
 */
const COMMANDS_MAX = 20;

/** Events that need a rule. */
export interface NeededBy {
  count: number;
  /** the first ones */
  event_ids: string[];
}

/** One learned rule. */
export interface LearnedRule {
  id: string;
  name: string;
  /** CEL in printable ASCII without single quotes */
  match: string;
  needed_by: NeededBy;
  /** in words: unrecorded events that it also allows */
  also: string;
  /** an event that shows it; the policy engine allows it by this rule */
  witness: Event;
}

/** Recorded values of one group of needs. */
interface Group {
  need: Need;
  values: Map<string, NeededBy & { other: Event }>;
}

/** A value, with the events that have it. */
type Recorded = [value: string, NeededBy & { other: Event }];

/** A part of a match, and the values it covers. */
interface Part {
  text: string;
  value: string;
  match: string;
  needed_by: NeededBy;
  also: string;
  witness: Event;
}

/**
 * Groups needs into rules. Their order, ids and matches depend on the recorded values
 * only, not on the order of events.
 */
export class RuleMaker {
  readonly #groups = new Map<string, Group>();

  add(need: Need, event_id: string): void {
    const key = JSON.stringify([need.tests, need.field]);
    let group = this.#groups.get(key);
    if (!group) this.#groups.set(key, group = { need, values: new Map() });
    const found = group.values.get(need.value);
    if (!found) group.values.set(need.value, { count: 1, event_ids: [event_id], other: need.other });
    else {
      found.count++;
      found.event_ids = firstIds([...found.event_ids, event_id]);
    }
  }

  /** @param taken ids that other rules of the profile have */
  rules(taken: Iterable<string> = []): LearnedRule[] {
    const ids = new Set(taken);
    return [...this.#groups].sort(([a], [b]) => a < b ? -1 : 1).flatMap(([, group]) => {
      const { need } = group;
      return [...chunks(partsOf(group))].map((parts): LearnedRule => ({
        id: freeId(need.slug, ids),
        name: shown(nameOf(need, parts)),
        match: [...need.tests, joined(need, parts)].filter((test) => test !== "").join(" && "),
        needed_by: sum(parts.map(({ needed_by }) => needed_by)),
        also: [...new Set(parts.map(({ also }) => also))].slice(0, IDS_SHOWN).join("; "),
        witness: parts[0].witness,
      }));
    });
  }
}

function partsOf({ need, values }: Group): Part[] {
  const sorted = [...values].sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
  if (need.isPath) return patternsOf(values.keys()).map((pattern) => pathPart(pattern, need, sorted));
  const isOpen = values.size > COMMANDS_MAX || values.has(ANY_ARGUMENTS);
  if (need.field === "process.activity.argv" && isOpen) return [anyArguments(need, sorted)];
  return sorted.map(([value, { other, ...needed_by }]) => ({
    text: value,
    value: need.field === "process.activity.argv" ? listOf(JSON.parse(value)) : quote(value),
    match: "",
    needed_by,
    also: need.open,
    witness: other,
  }));
}

function pathPart(pattern: PathPattern, need: Need, sorted: readonly Recorded[]): Part {
  const covered = sorted.filter(([path]) => covers(pattern, path)).map(([, found]) => found);
  const { other } = covered[0];
  const path = `${pattern.text}sbx-witness`;
  const request = pattern.isPrefix ? { ...other.http!.request, path, url: "" } : other.http!.request;
  return {
    text: pattern.text + (pattern.isPrefix ? "*" : ""),
    value: quote(pattern.text),
    match: pattern.isPrefix ? `${need.field}.startsWith(${quote(pattern.text)})` : "",
    needed_by: sum(covered),
    also: pattern.isPrefix ? `every path below ${shown(pattern.text)}, ${need.open}` : need.open,
    witness: { ...other, http: { request } },
  };
}

/** The tests of such a group name the program. */
function anyArguments(need: Need, sorted: readonly Recorded[]): Part {
  const { other } = sorted[0][1];
  const { activity } = other.process!;
  return {
    text: "any",
    value: "",
    match: "true",
    needed_by: sum(sorted.map(([, found]) => found)),
    also: `any arguments, ${need.open}`,
    witness: { ...other, process: { activity: { ...activity, argv: [...activity.argv, "sbx-witness"] } } },
  };
}

/** The test on the values: one `in` list, and a test for each beginning of paths. */
function joined({ field }: Need, parts: readonly Part[]): string {
  if (field === undefined) return "";
  const values = parts.filter(({ match }) => match === "").map(({ value }) => value);
  const tests = parts.filter(({ match }) => match !== "").map(({ match }) => match);
  if (tests.includes("true")) return "";
  if (values.length === 1) tests.unshift(`${field} == ${values[0]}`);
  if (values.length > 1) {
    tests.unshift(
      field === "process.activity.argv"
        ? values.map((value) => `${field} == ${value}`).join(" || ")
        : `${field} in [${values.join(", ")}]`,
    );
  }
  const text = tests.join(" || ");
  return text.includes(" || ") ? `(${text})` : text;
}

function nameOf({ label, field }: Need, parts: readonly Part[]): string {
  if (field === undefined) return label;
  const [first, ...rest] = parts.map(({ text }) => text);
  const glue = field === "http.request.path" ? "" : ": ";
  return `${label}${first === "" ? "" : glue + first}${rest.length ? ` and ${rest.length} more` : ""}`;
}

function* chunks(parts: readonly Part[]): Generator<Part[]> {
  let chunk: Part[] = [];
  let characters = 0;
  for (const part of parts) {
    const length = part.value.length + part.match.length;
    if (chunk.length === VALUES_MAX || (chunk.length > 0 && characters + length > CHARACTERS_MAX)) {
      yield chunk;
      [chunk, characters] = [[], 0];
    }
    chunk.push(part);
    characters += length;
  }
  yield chunk;
}

function sum(all: readonly NeededBy[]): NeededBy {
  return {
    count: all.reduce((total, { count }) => total + count, 0),
    event_ids: firstIds(all.flatMap(({ event_ids }) => event_ids)),
  };
}

const firstIds = (ids: readonly string[]) => ids.toSorted().slice(0, IDS_SHOWN);

function freeId(wanted: string, ids: Set<string>): string {
  let id = wanted;
  for (let number = 2; ids.has(id); number++) id = `${wanted}-${number}`;
  ids.add(id);
  return id;
}

function listOf(values: readonly string[]): string {
  return `[${values.map(quote).join(", ")}]`;
}

// Paths of requests as a few patterns.

/** Entries of one folder that are named one by one; with more, the folder is allowed as a whole. */
const ENTRIES_MAX = 8;

/** Paths that a rule allows. */
interface PathPattern {
  /** the path itself, or the beginning of paths, with its last slash */
  text: string;
  isPrefix: boolean;
}

/** A folder of the paths of a host. */
interface Folder {
  folders: Map<string, Folder>;
  /** names of paths that end here */
  ends: Set<string>;
  /** something below cannot be named */
  isOpen: boolean;
}

/**
 * Patterns that cover every path and little else, in order. A path is named as it is; the folder of more than
 * {@linkcode ENTRIES_MAX} entries, or of a path that no rule can name, by its beginning.
 */
function patternsOf(paths: Iterable<string>): PathPattern[] {
  const root = emptyFolder();
  const whole: string[] = [];
  for (const path of paths) {
    if (path.startsWith("/")) insert(root, path.split("/").slice(1));
    else whole.push(path);
  }
  return [...whole.map((text) => ({ text, isPrefix: false })), ...collect(root, "/")]
    .sort((a, b) => a.text < b.text ? -1 : a.text > b.text ? 1 : 0);
}

/** True when a pattern covers a path. */
function covers({ text, isPrefix }: PathPattern, path: string): boolean {
  return isPrefix ? path.startsWith(text) : path === text;
}

function insert(root: Folder, names: string[]): void {
  let folder = root;
  let length = 1;
  for (const name of names.slice(0, -1)) {
    length += name.length + 1;
    if (!canName(name) || !canName("x".repeat(length))) return void (folder.isOpen = true);
    let next = folder.folders.get(name);
    if (!next) folder.folders.set(name, next = emptyFolder());
    folder = next;
  }
  const last = names.at(-1)!;
  if (canName(last) && canName("x".repeat(length + last.length))) folder.ends.add(last);
  else folder.isOpen = true;
}

function* collect(folder: Folder, at: string): Generator<PathPattern> {
  if (folder.isOpen || folder.ends.size + folder.folders.size > ENTRIES_MAX) {
    return yield { text: at, isPrefix: true };
  }
  for (const name of folder.ends) yield { text: at + name, isPrefix: false };
  for (const [name, inner] of folder.folders) yield* collect(inner, `${at}${name}/`);
}

function emptyFolder(): Folder {
  return { folders: new Map(), ends: new Set(), isOpen: false };
}
