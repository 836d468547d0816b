/**
 * Properties that a `devcontainer.json`, a feature and the metadata of an image
 * have in common, and their merge.
 */
import { z } from "zod";
import { parseJson } from "../../base/json/mod.ts";
import { DEVCONTAINER_COMMANDS } from "../../release/environment/mod.ts";

/** Most `characters` of an image's label, and most entries in it. */
const LABEL_MAX = 1024 * 1024, ENTRIES_MAX = 200;
/** Origin of the properties of the file itself. */
export const FILE_ORIGIN = "devcontainer.json";

const Variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/);
const Command = z.union([z.string(), z.array(z.string())]);
const Lifecycle = z.union([Command, z.record(z.string(), Command)]);
export type Lifecycle = z.infer<typeof Lifecycle>;
const Size = z.string().regex(/^\d{1,12}([tgmk]b)?$/i, "write a size such as 8gb");

/** The properties by name; each may be absent. */
export const PROPERTIES = {
  containerEnv: z.record(Variable, z.string()).optional(),
  remoteEnv: z.record(Variable, z.string().nullable()).optional(),
  containerUser: z.string().min(1).max(256).optional(),
  remoteUser: z.string().min(1).max(256).optional(),
  onCreateCommand: Lifecycle.optional(),
  updateContentCommand: Lifecycle.optional(),
  postCreateCommand: Lifecycle.optional(),
  postStartCommand: Lifecycle.optional(),
  postAttachCommand: Lifecycle.optional(),
  forwardPorts: z.array(z.union([z.int().min(1).max(65_535), z.string()])).optional(),
  portsAttributes: z.record(z.string(), z.looseObject({ label: z.string().optional() })).optional(),
  mounts: z.array(z.union([
    z.string(),
    z.looseObject({ type: z.string().optional(), source: z.string().optional(), target: z.string() }),
  ])).optional(),
  hostRequirements: z.looseObject({
    cpus: z.int().min(0).optional(),
    memory: Size.optional(),
    storage: Size.optional(),
  }).optional(),
} as const;

const Properties = z.object(PROPERTIES);
export type Properties = z.infer<typeof Properties>;

/** Properties with no effect in a VM, whose values would mean something in a container. */
export const WITHOUT_EFFECT = ["init", "privileged", "capAdd", "securityOpt", "entrypoint"] as const;

/** The properties of one file, feature or image. */
export interface Entry {
  origin: string;
  properties: Properties;
}

/**
 * Reads the label of an image, which is not sbx's: whatever does not parse is left out.
 *
 * @returns entries in the label's order, and the names of properties without an effect
 */
export function readLabel(label: string | undefined): { entries: Entry[]; leftOut: string[] } {
  if (label === undefined) return { entries: [], leftOut: [] };
  const values = label.length <= LABEL_MAX ? listOf(label) : undefined;
  if (values === undefined || values.length > ENTRIES_MAX) {
    return { entries: [], leftOut: ["the label devcontainer.metadata of the image"] };
  }
  const leftOut: string[] = [];
  const entries = values.flatMap((value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
    const fields = value as Record<string, unknown>;
    const origin = typeof fields.id === "string" && fields.id !== ""
      ? `the feature ${fields.id.slice(0, 400)}`
      : "the image";
    const properties: Record<string, unknown> = {};
    for (const [name, schema] of Object.entries(PROPERTIES)) {
      if (fields[name] === undefined) continue;
      const parsed = schema.safeParse(fields[name]);
      if (parsed.success) properties[name] = parsed.data;
      else leftOut.push(`${name} of ${origin}`);
    }
    leftOut.push(...namesWithoutEffect(fields).map((name) => `${name} of ${origin}`));
    return [{ origin, properties: properties as Properties }];
  });
  return { entries, leftOut };
}

/** Names of {@linkcode WITHOUT_EFFECT} that ask for something. */
export function namesWithoutEffect(fields: Record<string, unknown>): string[] {
  return WITHOUT_EFFECT.filter((name) => {
    const value = fields[name];
    return Array.isArray(value) ? value.length > 0 : Boolean(value);
  });
}

/** One entry, or a list of entries. @returns undefined where it is neither */
function listOf(label: string): unknown[] | undefined {
  try {
    const value = parseJson(label);
    return Array.isArray(value) ? value : [value];
  } catch {
    return undefined;
  }
}

/** A command, with the entry that brought it. */
interface Sourced<T> {
  origin: string;
  value: T;
}

/** Properties of several entries. */
export interface Merged {
  containerEnv: Record<string, string>;
  remoteEnv: Record<string, string | null>;
  containerUser?: string;
  remoteUser?: string;
  /** in the order of their run */
  commands: ({ name: (typeof DEVCONTAINER_COMMANDS)[number] } & Sourced<Lifecycle>)[];
  forwardPorts: (number | string)[];
  labels: Record<string, string>;
  mounts: { type: string; source?: string; target: string }[];
  /** `bytes` of memory and storage */
  requirements: { cpus: number; memory: number; storage: number };
}

/**
 * Merges entries as the specification does (containers.dev/implementors/spec, "Merge logic"): the last
 * user and variable win, commands are collected, ports united, the largest requirement counts, and a
 * folder has the last mount for it.
 */
export function merge(entries: Entry[]): Merged {
  const all = entries.map(({ properties }) => properties);
  const last = (name: "containerUser" | "remoteUser") => all.findLast((each) => each[name])?.[name];
  const ports = all.flatMap(({ forwardPorts = [] }) => forwardPorts);
  const mounts = new Map<string, Merged["mounts"][number]>();
  for (const mount of all.flatMap(({ mounts = [] }) => mounts).map(mountOf)) {
    mounts.delete(mount.target);
    mounts.set(mount.target, mount);
  }
  const most = (values: number[]) => Math.max(0, ...values);
  const requirements = all.map(({ hostRequirements = {} }) => hostRequirements);
  return {
    containerEnv: Object.assign({}, ...all.map(({ containerEnv }) => containerEnv)),
    remoteEnv: Object.assign({}, ...all.map(({ remoteEnv }) => remoteEnv)),
    containerUser: last("containerUser"),
    remoteUser: last("remoteUser"),
    commands: DEVCONTAINER_COMMANDS.flatMap((name) =>
      entries.flatMap(({ origin, properties: { [name]: value } }) =>
        value === undefined ? [] : [{ name, origin, value }]
      )
    ),
    forwardPorts: [...new Set(ports.map((port) => numberOf(port) ?? port))],
    labels: Object.fromEntries(
      all.flatMap(({ portsAttributes = {} }) =>
        Object.entries(portsAttributes).flatMap(([port, { label }]) => label ? [[port, label]] : [])
      ),
    ),
    mounts: [...mounts.values()],
    requirements: {
      cpus: most(requirements.map(({ cpus = 0 }) => cpus)),
      memory: most(requirements.map(({ memory = "0" }) => bytesOf(memory))),
      storage: most(requirements.map(({ storage = "0" }) => bytesOf(storage))),
    },
  };
}

/** `3000`, `"3000"` and `"localhost:3000"` are one port of the VM. */
function numberOf(port: number | string): number | undefined {
  if (typeof port === "number") return port;
  const number = Number(/^(?:localhost:)?(\d{1,5})$/.exec(port)?.[1]);
  return number >= 1 && number <= 65_535 ? number : undefined;
}

function bytesOf(size: string): number {
  const [, digits, unit = ""] = /^(\d+)([a-z]*)$/i.exec(size)!;
  const power = ["", "kb", "mb", "gb", "tb"].indexOf(unit.toLowerCase());
  return Number(digits) * 1024 ** power;
}

/** Reads Docker's syntax of `--mount`. */
export function mountOf(mount: string | { type?: string; source?: string; target: string }) {
  if (typeof mount !== "string") return { ...mount, type: mount.type ?? "volume" };
  const fields = Object.fromEntries(
    mount.split(",").map((part) => {
      const at = part.indexOf("=");
      return at < 0 ? [part.trim(), ""] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
    }),
  );
  return {
    type: fields.type || "volume",
    source: fields.source ?? fields.src,
    target: fields.target ?? fields.dst ?? fields.destination ?? "",
  };
}
