/** Schema of `[services.<name>]` (docs/design/contracts/04-profiles.md §4, "Services of a VM"). */
import { z } from "zod";
import { didYouMean } from "../../../base/text/mod.ts";
import { holdsToken } from "../../../credential/mod.ts";

// Limits of services (docs/design/contracts/14-limits.md §14).

/** Most services of a profile. */
export const SERVICES_MAX = 16;
/** Most words of a program, `characters` of one, and variables of a service. */
const WORDS_MAX = 64;
const WORD_CHARS_MAX = 4096;
const VARIABLES_MAX = 64;
/** Longest time for a service to become ready, in seconds: the default and the most. */
const READY_SECS = 60;
const READY_SECS_MAX = 600;
/** Output that is kept of a service, in `MiB`: the default and the most. */
const LOG_MB = 8;
const LOG_MB_MAX = 64;

/** Name of a service. */
export const SERVICE_NAME = /^[a-z][a-z0-9_-]{0,31}$/;
const NAME_RULE = "must be the name of a service: a letter, then up to 31 of a-z 0-9 _ -";

const word = z.string().max(WORD_CHARS_MAX).refine((text) => !text.includes("\0"), "must not contain NUL")
  .refine(
    (text) => !holdsToken(text),
    "must not hold a secret; store it with sbx credentials add: programs find its ref in their variables",
  );
const argv = z.array(word).min(1).max(WORDS_MAX);

/** How to find out that a service can be used. */
const Ready = z.strictObject({
  /** it listens on this port */
  port: z.int().min(1).max(65_535).optional(),
  /** this program ends with exit code 0 */
  command: argv.optional(),
  /** time that it has for that, in seconds */
  secs: z.int().min(1).max(READY_SECS_MAX).default(READY_SECS),
}).refine(({ port, command }) => (port === undefined) !== (command === undefined), {
  message: "needs one of port and command",
});

const Service = z.strictObject({
  /** program and arguments; it stays in the foreground */
  command: argv,
  /** of the guest: name or number, and the group after a colon; absent: the image's, or root */
  user: z.string().min(1).max(256).regex(/^[^\0]*$/, "must not contain NUL").optional(),
  /** absent: /workspace */
  cwd: z.string().max(WORD_CHARS_MAX).regex(/^\/[^\0]*$/, "must be an absolute path in the guest").optional(),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "not a name of a variable"), word).refine(
    (env) => Object.keys(env).length <= VARIABLES_MAX,
    `must have at most ${VARIABLES_MAX} variables`,
  ).default({}),
  /** services that are ready, or done, before this one starts */
  after: z.array(z.string()).max(SERVICES_MAX).default([]),
  /** absent: it is ready once it runs */
  ready: Ready.optional(),
  /** at which ends it is started again; `on-failure`: at all but exit code 0 */
  restart: z.enum(["always", "on-failure", "no"]).default("always"),
  /** output that is kept, in `MiB` */
  log_mb: z.int().min(1).max(LOG_MB_MAX).default(LOG_MB),
});
export type Service = z.output<typeof Service>;

/** `[services]`, each after the services that it names. */
export const Services = z.record(z.string().regex(SERVICE_NAME, NAME_RULE), Service)
  .superRefine((services, { addIssue }) => {
    const refuse = (path: PropertyKey[], message: string) => addIssue({ code: "custom", path, message });
    const names = Object.keys(services);
    if (names.length > SERVICES_MAX) refuse([], `must have at most ${SERVICES_MAX} services`);
    let isKnown = true;
    for (const [name, { after }] of Object.entries(services)) {
      for (const [at, other] of after.entries()) {
        if (Object.hasOwn(services, other)) continue;
        isKnown = false;
        const likely = didYouMean(other, names.filter((each) => each !== name));
        const problem = `there is no service ${JSON.stringify(other)}`;
        refuse([name, "after", at], likely === undefined ? problem : `${problem}; ${likely}`);
      }
    }
    const cycle = isKnown ? cycleOf(services) : undefined;
    if (cycle) refuse([cycle[0], "after"], `is a cycle: ${cycle.join(" after ")}`);
  });
export type Services = z.output<typeof Services>;

/** Names along a cycle, the first one at both ends. @returns undefined without one */
function cycleOf(services: Readonly<Record<string, Pick<Service, "after">>>): string[] | undefined {
  const done = new Set<string>();
  const visit = (name: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
    if (done.has(name)) return undefined;
    done.add(name);
    for (const other of services[name].after) {
      const found = visit(other, [...path, name]);
      if (found) return found;
    }
  };
  for (const name of Object.keys(services)) {
    const found = visit(name, []);
    if (found) return found;
  }
}
