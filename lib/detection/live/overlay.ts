/** Detections that are put in while VMs run (contracts.md §6, "Overlays"): a folder of JSON files. */
import { join } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { compileOrThrow } from "../compile.ts";
import type { DetectionIr } from "../ir.ts";
import { packOf, readBytes } from "../pack/pack.ts";
import { PACK_MAX } from "../pack/schema.ts";
import { requireInstallable } from "./pin.ts";
import { irOfRule, RuleInputSchema } from "./rule_input.ts";

/** Most overlays at once. */
export const OVERLAYS_MAX = 1000;
/** A file holds a pack, and as JSON the text of its sources is longer than it was. */
const FILE_MAX = 4 * PACK_MAX;

/** What a request puts in: a pack, or a rule of its own. */
export const OverlayInputSchema = z.union([
  z.strictObject({
    pack: z.record(z.string(), z.unknown()).describe("sbx.detection-pack.v1"),
    enabled: z.boolean().default(true),
  }),
  z.strictObject({ rule: RuleInputSchema, enabled: z.boolean().default(true) }),
]);
export type OverlayInput = z.input<typeof OverlayInputSchema>;

const FileSchema = z.strictObject({
  schema: z.literal("sbx.detection-overlay.v1"),
  id: z.string(),
  overlay: OverlayInputSchema,
});

/** One overlay. */
export interface Overlay {
  /** the pack's id, or the rule's */
  id: string;
  enabled: boolean;
  /** the pack or the rule, as it was put in */
  definition: unknown;
  /** absent when what an earlier sbx took does not compile any more */
  ir?: DetectionIr;
  /** why there is no IR */
  problem?: string;
}

/** The overlays of one installation: in memory, and in files that survive a restart. */
export class OverlayStore {
  readonly #overlays = new Map<string, Overlay>();
  #last: Promise<unknown> = Promise.resolve();

  private constructor(readonly dir: string) {}

  /**
   * Reads what is there. A file that is broken takes no other with it.
   *
   * @param onProblem told of files that are no overlays
   */
  static async open(dir: string, onProblem?: (message: string) => void): Promise<OverlayStore> {
    const store = new OverlayStore(dir);
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
    const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
    for (const name of names.filter((name) => /^[^.].*\.json$/.test(name)).sort()) {
      try {
        const overlay = await readOverlay(join(dir, name));
        if (`${overlay.id}.json` !== name) {
          throw new SbxError("detection.invalid", `it is the overlay "${overlay.id}"`);
        }
        store.#overlays.set(overlay.id, overlay);
        if (overlay.problem !== undefined) onProblem?.(`${join(dir, name)}: ${overlay.problem}`);
      } catch (error) {
        onProblem?.(`${join(dir, name)}: ${error instanceof SbxError ? error.message : "it cannot be read"}`);
      }
    }
    return store;
  }

  /** All of them, by id. */
  list(): Overlay[] {
    return [...this.#overlays.values()].sort((a, b) => a.id < b.id ? -1 : 1);
  }

  /** What is in force. */
  irs(): DetectionIr[] {
    return inForce(this.list());
  }

  /**
   * Adds an overlay, or replaces the one of the same id. It is in its file when this settles.
   *
   * @param accept looks at all overlays as they would be in force, and throws when that cannot be
   * @throws {SbxError} `detection.invalid`, `detection.revoked`, `detection.limit`, what `accept` throws
   */
  put(input: OverlayInput, accept?: (irs: DetectionIr[]) => void): Promise<Overlay> {
    return this.#inTurn(async () => {
      const parsed = OverlayInputSchema.safeParse(input);
      if (!parsed.success) {
        throw new SbxError("detection.invalid", "an overlay is a pack or a rule", { cause: parsed.error });
      }
      const overlay = await overlayOf(parsed.data);
      if (!this.#overlays.has(overlay.id) && this.#overlays.size >= OVERLAYS_MAX) {
        throw new SbxError("detection.limit", `there are ${OVERLAYS_MAX} overlays; no more are possible`, {
          hint: "delete some, or make a pack of them",
        });
      }
      accept?.(inForce([...this.list().filter(({ id }) => id !== overlay.id), overlay]));
      const file = { schema: "sbx.detection-overlay.v1", id: overlay.id, overlay: parsed.data };
      await writeAtomic(this.#path(overlay.id), JSON.stringify(file, null, 2) + "\n");
      this.#overlays.set(overlay.id, overlay);
      return overlay;
    });
  }

  /** Removes an overlay and its file. @throws {SbxError} `detection.not_found` */
  remove(id: string): Promise<Overlay> {
    return this.#inTurn(async () => {
      const overlay = this.#overlays.get(id);
      if (!overlay) {
        throw new SbxError("detection.not_found", `no runtime detection is called ${JSON.stringify(id)}`, {
          hint: "sbx detection list shows those there are; only those of scope runtime can be removed",
        });
      }
      await Deno.remove(this.#path(id)).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
      this.#overlays.delete(id);
      return overlay;
    });
  }

  /** Changes come one after the other: memory and files must not part. */
  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const next = this.#last.then(change);
    this.#last = next.catch(() => {});
    return next;
  }

  #path(id: string): string {
    return join(this.dir, `${id}.json`);
  }
}

function inForce(overlays: readonly Overlay[]): DetectionIr[] {
  return overlays.flatMap(({ enabled, ir }) => enabled && ir ? [ir] : []);
}

async function readOverlay(path: string): Promise<Overlay> {
  const parsed = FileSchema.safeParse(JSON.parse(new TextDecoder().decode(await readBytes(path, FILE_MAX))));
  if (!parsed.success) throw new SbxError("detection.invalid", "not an overlay");
  const { id, overlay } = parsed.data;
  try {
    return await overlayOf(overlay);
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    const definition = "pack" in overlay ? overlay.pack : overlay.rule;
    return { id, enabled: overlay.enabled, definition, problem: error.message };
  }
}

/** The IR of an overlay's definition, a pack or a rule. @throws {SbxError} `detection.invalid` */
export function irOfInput(definition: unknown): Promise<DetectionIr> {
  const rule = RuleInputSchema.safeParse(definition);
  return rule.success ? irOfRule(rule.data) : compileOrThrow(packOf(definition));
}

async function overlayOf(input: z.output<typeof OverlayInputSchema>): Promise<Overlay> {
  const { enabled } = input;
  const ir = "pack" in input ? await compileOrThrow(packOf(input.pack)) : await irOfRule(input.rule);
  requireInstallable(ir);
  return "pack" in input
    ? { id: ir.pack_id, enabled, definition: input.pack, ir }
    : { id: input.rule.id, enabled, definition: input.rule, ir };
}
