/**
 * Exceptions from findings: `$SBX_HOME/detection/exceptions.toml`, which a team can review
 * (docs/design/contracts/06-detection.md §6, "Triage"). They change no decision and no record.
 */
import { join } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { appendTable, OwnToml, removeTable, type TomlValue } from "../../base/toml/mod.ts";
import type { Event } from "../../event/mod.ts";

/** Most exceptions. */
export const EXCEPTIONS_MAX = 1000;
/** Most characters of a name in an exception. */
const NAME_MAX = 256;
/** Most characters of a reason. */
export const REASON_MAX = 1000;

const name = z.string().min(1).max(NAME_MAX);

/** An exception, as its file has it. */
const Exception = z.strictObject({
  rule: name,
  pack: name.optional(),
  host: name.optional(),
  program: name.optional(),
  vm: name.optional(),
  reason: z.string().min(1).max(REASON_MAX),
  by: name.optional(),
  expires: z.iso.datetime(),
}).refine(
  ({ host, program, vm }) => host !== undefined || program !== undefined || vm !== undefined,
  "needs host, program or vm: to switch a whole detection off, use sbx detection disable",
);
export type Exception = z.infer<typeof Exception> & { id: string };

const File = z.strictObject({
  exceptions: z.record(z.string().regex(/^[a-z0-9-]{1,64}$/, "must be 1 to 64 of a-z 0-9 -"), Exception)
    .refine((table) => Object.keys(table).length <= EXCEPTIONS_MAX, `has more than ${EXCEPTIONS_MAX}`)
    .default({}),
});

/** Properties of a finding that exceptions name. */
export interface FindingFacts {
  rule_id: string;
  pack_id: string;
  /** Unix `ms` of the event */
  at: number;
  host?: string;
  program?: string;
  vm?: string;
}

/** The properties of a finding, from its event. @param vm name of the VM */
export function factsOf(
  { rule_id, pack_id }: { rule_id: string; pack_id: string },
  { common, http, dns, db, credential, process }: Event,
  vm: string | undefined,
): FindingFacts {
  const host = http?.request.host ?? dns?.request.qname ?? db?.request.host ??
    credential?.substitution.host;
  const program = common.process?.executable ?? process?.activity.executable;
  return {
    rule_id,
    pack_id,
    at: common.timestamp_unix_ms,
    ...(host !== undefined && { host }),
    ...(program !== undefined && { program }),
    ...(vm !== undefined && { vm }),
  };
}

/** The exceptions of one home. */
export class FindingExceptions {
  readonly #file: OwnToml<typeof File>;

  constructor({ dir }: Pick<Home, "dir">) {
    this.#file = new OwnToml(join(dir, "detection", "exceptions.toml"), {
      schema: File,
      code: "detection.exceptions",
      meanwhile: "it excepts nothing",
    });
  }

  /**
   * Every exception, also expired ones.
   *
   * @throws {SbxError} `detection.exceptions`: the file is invalid, or others may write it
   */
  async list(): Promise<Exception[]> {
    return exceptionsOf(await this.#file.read());
  }

  /** Finds the exception of a finding. A file that is not valid excepts nothing. */
  async finder(): Promise<(facts: FindingFacts) => Exception | undefined> {
    const all = await this.list().catch(() => []);
    return (facts) => all.find((each) => isOf(each, facts));
  }

  /** Adds an exception. @throws {SbxError} `detection.exceptions` */
  add(exception: Omit<Exception, "id">): Promise<Exception> {
    return this.#file.edit(async (document) => {
      const id = `${slugOf(exception.rule)}-${crypto.randomUUID().slice(0, 8)}`;
      const table = Object.fromEntries(
        Object.entries(exception).filter(([, value]) => value !== undefined),
      ) as Record<string, TomlValue>;
      return [await appendTable(document, ["exceptions", id], table), { id, ...exception }];
    });
  }

  /** Removes an exception, and returns it. @throws {SbxError} `detection.not_found` */
  remove(id: string): Promise<Exception> {
    return this.#file.edit((document, content) => {
      const exception = exceptionsOf(content).find((each) => each.id === id);
      if (!exception) {
        throw new SbxError("detection.not_found", `there is no exception "${id}"`, {
          hint: "sbx findings exceptions lists them",
        });
      }
      return [removeTable(document, ["exceptions", id]), exception];
    });
  }
}

function exceptionsOf({ exceptions }: z.infer<typeof File>): Exception[] {
  return Object.entries(exceptions).map(([id, exception]) => ({ id, ...exception }));
}

function isOf({ rule, pack, host, program, vm, expires }: Exception, facts: FindingFacts): boolean {
  const agrees = (wanted: string | undefined, value: string | undefined) =>
    wanted === undefined || wanted === value;
  return rule === facts.rule_id && agrees(pack, facts.pack_id) && facts.at < Date.parse(expires) &&
    agrees(host, facts.host) && agrees(program, facts.program) && agrees(vm, facts.vm);
}

function slugOf(rule: string): string {
  return rule.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 40) || "rule";
}
