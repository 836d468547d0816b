/**
 * Rules of packs that a person switched off: `$SBX_HOME/detection/disabled.toml`, which a team can review
 * (docs/design/contracts/06-detection.md §6, "Rules that are switched off"). Corp's rules stay on.
 */
import { join } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { appendTable, OwnToml, removeTable } from "../../base/toml/mod.ts";
import { OFF_MAX, OFF_REASON_MAX, RULE_ID_MAX } from "./schema.ts";

const Table = z.strictObject({
  reason: z.string().min(1).max(OFF_REASON_MAX),
  by: z.string().min(1).max(256).optional(),
  at: z.iso.datetime(),
});

/** A rule that is switched off. */
export type OffRule = z.infer<typeof Table> & { id: string };

const File = z.strictObject({
  rules: z.record(z.string().min(1).max(RULE_ID_MAX), Table)
    .refine((table) => Object.keys(table).length <= OFF_MAX, `has more than ${OFF_MAX}`)
    .default({}),
});

/** The rules that are switched off in one home. */
export class OffRules {
  readonly #file: OwnToml<typeof File>;

  /** @param dir `$SBX_HOME/detection` */
  constructor(dir: string) {
    this.#file = new OwnToml(join(dir, "disabled.toml"), {
      schema: File,
      code: "detection.disabled",
      meanwhile: "every rule is on",
    });
  }

  get path(): string {
    return this.#file.path;
  }

  /** @throws {SbxError} `detection.disabled`: the file is invalid, or others may write it */
  async list(): Promise<OffRule[]> {
    return Object.entries((await this.#file.read()).rules).map(([id, rule]) => ({ id, ...rule }));
  }

  /** Switches a rule off. @returns whether it was on. @throws {SbxError} `detection.disabled` */
  add({ id, ...table }: OffRule): Promise<boolean> {
    return this.#file.edit(async (document, { rules }) =>
      Object.hasOwn(rules, id)
        ? [document, false]
        : [await appendTable(document, ["rules", id], { ...table }), true]
    );
  }

  /**
   * Switches a rule on again.
   * @throws {SbxError} `detection.not_found`: it is not in the file; `detection.disabled`
   */
  remove(id: string): Promise<void> {
    return this.#file.edit((document, { rules }) => {
      if (!Object.hasOwn(rules, id)) {
        throw new SbxError("detection.not_found", `the rule "${id}" is not switched off`, {
          hint: "sbx detection list shows the rules, and which are off",
        });
      }
      return [removeTable(document, ["rules", id]), undefined];
    });
  }
}
