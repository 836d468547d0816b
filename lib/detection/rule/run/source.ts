/** Sources of a plan: readers of the values that Sigma's fields have in an event. */
import { isAddress } from "../../../base/address/mod.ts";
import { type Event, fileNameOf, getterOf } from "../../../event/mod.ts";
import type { Matchable } from "../../match/index_node.ts";

/** A program that started another. */
export interface Parent {
  executable: string;
  command: string;
}

type Reader = (event: Matchable, parent: Parent | undefined) => unknown;

/** Fields whose value is not simply in the event: `base#transform`. */
const TRANSFORMS: Record<string, (value: unknown) => unknown> = {
  address: (value) =>
    typeof value === "string" && isAddress(value) ? value.replace(/^\[|\]$/g, "") : undefined,
  is_ipv6: (value) => typeof value === "string" && isAddress(value) ? value.includes(":") : undefined,
  extension: (value) => typeof value === "string" ? extensionOf(value) : undefined,
  name: (value) => typeof value === "string" ? fileNameOf(value).name : undefined,
  // The guest's report has the number only.
  user: (value) => value === "0" ? "root" : value,
  target: (value) => {
    const { path, query } = (value ?? {}) as { path?: string; query?: string };
    return path === undefined ? undefined : query ? `${path}?${query}` : path;
  },
  record_types: (value) => {
    const { operation } = (value ?? {}) as { operation?: string };
    if (operation === undefined) return undefined;
    return operation === "exec" ? EXEC_RECORDS : FILE_RECORDS;
  },
  nametype: (value) => {
    const { operation } = (value ?? {}) as { operation?: string };
    if (operation === undefined) return undefined;
    return operation === "create" ? "CREATE" : operation === "delete" ? "DELETE" : "NORMAL";
  },
  syscall: (value) => value === undefined ? undefined : "execve",
  minute: (value) => dateOf(value)?.getUTCMinutes(),
  hour: (value) => dateOf(value)?.getUTCHours(),
  day: (value) => dateOf(value)?.getUTCDate(),
  week: (value) => weekOf(dateOf(value)),
  month: (value) => {
    const month = dateOf(value)?.getUTCMonth();
    return month === undefined ? undefined : month + 1;
  },
  year: (value) => dateOf(value)?.getUTCFullYear(),
};

/** Records that the Linux audit daemon writes of one event. */
const EXEC_RECORDS = ["EXECVE", "SYSCALL", "CWD", "PATH", "PROCTITLE"];
const FILE_RECORDS = ["PATH", "SYSCALL", "CWD", "PROCTITLE"];

/** Tests whether a plan's source can be read. */
export function isSource(source: string): boolean {
  const [base, ...transforms] = source.split("#");
  return source.startsWith("=") ||
    base.length > 0 && transforms.every((name) => Object.hasOwn(TRANSFORMS, name));
}

/** Compiles a source to a reader. */
export function readerOf(source: string): Reader {
  if (source.startsWith("=")) {
    const value = source.slice(1);
    return () => value;
  }
  const [base, ...names] = source.split("#");
  const read = baseReader(base);
  const transforms = names.map((name) => TRANSFORMS[name] ?? (() => undefined));
  if (transforms.length === 0) return read;
  return (event, parent) => transforms.reduce((value, transform) => transform(value), read(event, parent));
}

function baseReader(base: string): Reader {
  if (base === "parent.executable") return (_, parent) => parent?.executable;
  if (base === "parent.command") return (_, parent) => parent?.command;
  const [, path, key] = /^([^[]*)\[(.*)\]$/s.exec(base) ?? [undefined, base, undefined];
  const get = getterOf(path);
  if (key === undefined) return (event) => get(event as unknown as Event);
  return (event) => {
    const value = get(event as unknown as Event);
    return value !== null && typeof value === "object" && Object.hasOwn(value, key)
      ? (value as Record<string, unknown>)[key]
      : undefined;
  };
}

function extensionOf(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const dot = name.lastIndexOf(".");
  return dot < 0 ? undefined : name.slice(dot + 1);
}

function dateOf(value: unknown): Date | undefined {
  if (typeof value !== "number" && typeof value !== "string") return undefined;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? undefined : date;
}

const DAY_MS = 86_400_000;

/** Week of the year by ISO 8601: the one that has its Thursday in the year. */
function weekOf(date: Date | undefined): number | undefined {
  if (!date) return undefined;
  const thursday = new Date(date.getTime() + (4 - (date.getUTCDay() || 7)) * DAY_MS);
  return Math.floor((thursday.getTime() - Date.UTC(thursday.getUTCFullYear(), 0, 1)) / DAY_MS / 7) + 1;
}
