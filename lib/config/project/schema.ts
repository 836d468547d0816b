/**
 * Schema of `.sbx.toml` (docs/design/contracts/04-profiles.md §4). It comes with a
 * repository: any text is possible.
 */
import { z } from "zod";
import { strengthOf } from "../../base/redact/mod.ts";
import { NarrowingRule, RULE_ID } from "../../policy/author/schema.ts";
import { isAptPackage, isReservedVariable } from "../profile/mod.ts";
import { PROFILE_ID, VM_CPU_MAX, VM_RAM_GB_MAX, VM_SCRATCH_DISK_GB_MAX } from "../profile/limit/schema.ts";

/** Most variables, and most characters of a value (docs/design/contracts/14-limits.md §14). */
const VARIABLES_MAX = 64, VALUE_MAX = 1024;

/** Most rules, as a VM takes them. */
const RULES_MAX = 64;

const Variables = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "is not a name of a variable")
    .refine(
      (name) => !isReservedVariable(name),
      "is reserved: it changes what programs load or where they connect",
    )
    .refine(
      (name) => strengthOf(name) === undefined,
      "is the name of a secret: sbx credentials add keeps those",
    ),
  // deno-lint-ignore no-control-regex
  z.string().max(VALUE_MAX).regex(/^[^\x00-\x1f\x7f]*$/, "must not contain control characters"),
).refine(
  (table) => Object.keys(table).length <= VARIABLES_MAX,
  `must have at most ${VARIABLES_MAX} variables`,
);

/** Most ports, as `sbx port` forwards them. */
const PORTS_MAX = 16;

/** Most packages of one kind. */
const PACKAGES_MAX = 64;

const packagesOf = (name: z.ZodString, what: string) =>
  z.array(name).max(PACKAGES_MAX, `must name at most ${PACKAGES_MAX} packages`)
    .refine((names) => new Set(names).size === names.length, `must name each ${what} once`).default([]);

/** An npm package with its exact version, which a person approves and which is installed. */
const NPM_EXACT = /^(@[a-z0-9][a-z0-9._~-]*\/)?[a-z0-9][a-z0-9._~-]*@\d+\.\d+\.\d+[A-Za-z0-9.+-]*$/;

export const ProjectFile = z.strictObject({
  /** waits for a person: the profile of a VM that no command names one for; an agent has its own */
  profile: z.string().regex(PROFILE_ID, "must be the id of a profile").optional(),
  /** wait for a person: ports of the VM that this host's loopback leads to */
  ports: z.array(z.int().min(1).max(65_535)).max(PORTS_MAX, `must have at most ${PORTS_MAX} ports`)
    .refine((ports) => new Set(ports).size === ports.length, "must name each port once")
    .default([]),
  /** waits for a person: the agent of `sbx agent` that names none */
  agent: z.string().regex(PROFILE_ID, "must be the id of an agent").optional(),
  /** wait for a person: installed in the VM once the folder is there, under its rules */
  packages: z.strictObject({
    apt: packagesOf(z.string().refine(isAptPackage, "is not the name of a Debian package"), "Debian package"),
    npm: packagesOf(
      z.string().max(256).regex(NPM_EXACT, "must be an npm package with its exact version, as name@1.2.3"),
      "npm package",
    ),
  }).prefault({}),
  /** what holds at once */
  rules: z.record(
    z.string().max(100).regex(RULE_ID, "may contain letters, digits, _ . and -"),
    NarrowingRule,
  ).refine((rules) => Object.keys(rules).length <= RULES_MAX, `must have at most ${RULES_MAX} rules`)
    .default({}),
  /** waits for a person */
  env: Variables.default({}),
  /** waits for a person; within the limits of corp and of this host */
  vm: z.strictObject({
    cpus: z.int().min(1).max(VM_CPU_MAX).optional(),
    ram_gb: z.int().min(1).max(VM_RAM_GB_MAX).optional(),
    disk_gb: z.int().min(1).max(VM_SCRATCH_DISK_GB_MAX).optional(),
  }).default({}),
});
