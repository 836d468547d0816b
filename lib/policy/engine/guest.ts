/**
 * Rules that a guest is held to: which operations wait for a decision, and which files and arguments they
 * read.
 */
import type { EventType, FileActivity } from "../../event/mod.ts";
import type { CompiledRule } from "./compile.ts";
import { type Condition, masksOf, type Probe, TYPES, typesOf } from "./condition.ts";

type Operation = FileActivity["operation"];

const ACTOR = "common.actor";
const EVENT_TYPE = "common.event_type";
const OPERATION = "file.activity.operation";
/**
 * Operations of guest programs on files that wait for a decision: the kernel asks about a file when it is
 * opened.
 */
export const HELD = ["read", "write"] as const;
export type HeldOperation = typeof HELD[number];
export const NOT_HELD: readonly Operation[] = ["create", "delete", "rename"];

/** Fields of a file that follow from its path. */
const FILE_FIELDS = ["path", "path_class", "name", "ext"] as const;
const FILE_FIELD = "file.activity.";
/** Most tests by which a guest chooses the files that it asks about; with more it asks about all. */
const FILE_TESTS_MAX = 256;

/** Test of a file, which passes with one of the values. */
export interface FileTest {
  field: typeof FILE_FIELDS[number];
  op: Probe["op"];
  values: string[];
}

/** Facts known about an event before it happens. */
interface Known {
  type: EventType;
  operation?: Operation;
}

/**
 * True when a rule may block or rewrite what programs of the guest cause, or ask about it, among events of a
 * type: they then wait for its decision. A rule with `common.actor == "host"` restricts none of the guest's.
 */
export function restrictsGuest(compiled: CompiledRule, type: EventType): boolean {
  return conditionOn(compiled, { type }) !== undefined;
}

/** True when a rule may restrict one of these operations of the guest's programs on files. */
export function restrictsFiles(compiled: CompiledRule, operations: readonly Operation[]): boolean {
  return operations.some((operation) =>
    conditionOn(compiled, { type: "file.activity", operation }) !== undefined
  );
}

/** Files that rules may restrict an operation on: all, none, or the ones that pass one of these tests. */
export function filesOf(rules: readonly CompiledRule[], operation: Operation): boolean | FileTest[] {
  const all: FileTest[] = [];
  for (const rule of rules) {
    const condition = conditionOn(rule, { type: "file.activity", operation });
    if (condition === undefined) continue;
    const tests = fileTests(condition);
    if (!tests) return true;
    all.push(...tests);
  }
  return all.length > FILE_TESTS_MAX || (all.length > 0 && all);
}

/** The condition under which a rule restricts programs of the guest; `undefined` where it never does. */
function conditionOn({ rule, types, condition }: CompiledRule, known: Known): Condition | undefined {
  return rule.action === "allow" || (types & maskOf(known.type)) === 0 ? undefined : partOf(condition, known);
}

/** The rest of a condition where some of the event is known; `undefined` where it is false. */
function partOf(condition: Condition, known: Known): Condition | undefined {
  if ((masksOf(condition).yes & maskOf(known.type)) === 0) return undefined;
  switch (condition.kind) {
    case "and":
    case "or": {
      const parts = condition.parts.map((part) => partOf(part, known));
      const left = parts.filter((part) => part !== undefined);
      const isFalse = condition.kind === "and" ? left.length < parts.length : left.length === 0;
      return isFalse ? undefined : { kind: condition.kind, parts: left };
    }
    case "test":
      return condition.probes.every((probe) => mayBe(probe, known)) ? condition : undefined;
  }
  return condition;
}

function mayBe({ path, op, values }: Probe, { type, operation }: Known): boolean {
  const value = path === ACTOR ? "vm" : path === EVENT_TYPE ? type : path === OPERATION && operation;
  return !value || op !== "equals" || values.includes(value);
}

/** Tests one of which passes for every file that may meet a condition; `undefined` without such tests. */
function fileTests(condition: Condition): FileTest[] | undefined {
  switch (condition.kind) {
    case "and": {
      const tests = condition.parts.map(fileTests).filter((some) => some !== undefined);
      // A class has many files.
      return tests.find((some) => some.every(({ field }) => field !== "path_class")) ?? tests[0];
    }
    case "or": {
      const tests = condition.parts.map(fileTests);
      return tests.every((some) => some !== undefined) ? tests.flat() : undefined;
    }
    case "test": {
      const probe = condition.probes.find(isFileTest);
      return probe && [{
        field: probe.path.slice(FILE_FIELD.length) as FileTest["field"],
        op: probe.op,
        values: probe.values.map(String),
      }];
    }
  }
}

function isFileTest({ path }: Probe): boolean {
  return FILE_FIELDS.some((field) => path === FILE_FIELD + field);
}

const EXECUTABLE = "process.activity.executable";
/** Fields with the arguments of a program that starts. */
const ARGUMENTS = ["process.activity.argv", "process.activity.command", "common.process.command"];
const PROBES: Record<Probe["op"], (text: string, value: string) => boolean> = {
  equals: (text, value) => text === value,
  prefix: (text, value) => text.startsWith(value),
  suffix: (text, value) => text.endsWith(value),
  contains: (text, value) => text.includes(value),
};

/**
 * True for a rule that reads the arguments of programs of the guest and may match one of this name
 * with arguments that are not known.
 *
 * @param names of the program: its path, the file's, and the last part of each
 */
export function needsArguments({ condition, paths, types }: CompiledRule, names: readonly string[]): boolean {
  const known: Known = { type: "process.exec" };
  if ((types & maskOf(known.type)) === 0 || !paths.some((path) => ARGUMENTS.includes(path))) return false;
  const part = partOf(condition, known);
  return part !== undefined && mayMatch(part, names);
}

function mayMatch(condition: Condition, names: readonly string[]): boolean {
  switch (condition.kind) {
    case "and":
      return condition.parts.every((part) => mayMatch(part, names));
    case "or":
      return condition.parts.some((part) => mayMatch(part, names));
    case "constant":
      return condition.value;
    case "not":
      return true;
    case "test":
      return condition.probes.every(({ path, op, values }) =>
        path !== EXECUTABLE || values.some((value) => names.some((name) => PROBES[op](name, String(value))))
      );
  }
}

/** Fields that are the same each time when a program of the guest uses a file under the same path. */
const SAME_FOR_FILE: Partial<Record<EventType, readonly string[]>> = {
  "process.exec": ["process.activity.operation", "process.activity.executable"],
  "file.activity": [OPERATION, ...[...FILE_FIELDS, "byte_count"].map((field) => FILE_FIELD + field)],
};
const SAME_FOR_GUEST: readonly string[] = [EVENT_TYPE, "common.source_engine", ACTOR];

/**
 * True for a rule whose decision on events of a type depends on a file of the guest and its
 * path alone, and on the operation.
 */
export function decidesByFile({ types, paths }: CompiledRule, type: EventType): boolean {
  const mask = maskOf(type);
  // Fields of other families are absent each time.
  return (types & mask) === 0 ||
    paths.every((path) =>
      (typesOf(path) & mask) === 0 || SAME_FOR_GUEST.includes(path) || SAME_FOR_FILE[type]!.includes(path)
    );
}

function maskOf(type: EventType): number {
  return 1 << TYPES.indexOf(type);
}
