/**
 * Overlays: detections added while VMs run (docs/design/contracts/06-detection.md §6), stored as a folder of
 * JSON files.
 */
import { join } from "node:path";
import { z } from "zod";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { compileOrThrow } from "../compile/mod.ts";
import { type Compiled, rulesOf } from "../compiled.ts";
import { type DetectionIr, type ExportRoute, IR_SCHEMA, isExportRoute } from "../ir/ir.ts";
import { mergeCounters, type RuleCounter } from "../match/matcher.ts";
import { PACK_MAX, PACK_SCHEMA, packOf, readBytes } from "../pack/mod.ts";
import { compileSource } from "../rule/load.ts";
import { exportRoutes } from "./load.ts";
import type { OffRule } from "./off.ts";
import { maySwitchOff, requireInstallable } from "./pin.ts";
import { type RuleInput, RuleInputSchema, RuleSourceSchema } from "./schema.ts";

/** Maximum number of overlays. */
export const OVERLAYS_MAX = 1000;
/** Maximum bytes of an overlay file: a pack's source text, grown by JSON escaping. */
const FILE_MAX = 4 * PACK_MAX;

/** Body of a request to add an overlay: a pack, a single rule, or files of Sigma rules. */
export const OverlayInputSchema = z.union([
  z.strictObject({
    pack: z.record(z.string(), z.unknown()).describe("sbx.detection-pack.v1"),
    enabled: z.boolean().default(true),
  }),
  z.strictObject({ rule: RuleInputSchema, enabled: z.boolean().default(true) }),
  z.strictObject({ sigma: RuleSourceSchema, enabled: z.boolean().default(true) }),
]);
export type OverlayInput = z.input<typeof OverlayInputSchema>;

const FileSchema = z.strictObject({
  schema: z.literal("sbx.detection-overlay.v1"),
  id: z.string(),
  overlay: OverlayInputSchema,
});

/** Detections added at run time. */
export interface Overlay {
  /** id of the pack, the rule, or the files of Sigma rules */
  id: string;
  enabled: boolean;
  /** pack, rule or files of Sigma rules, as the request defined them */
  definition: unknown;
  /** sinks for its findings; empty means all */
  export_routes: ExportRoute[];
  /** absent if the definition, accepted by an earlier sbx, no longer compiles */
  ir?: Compiled;
  /** reason for the missing IR */
  problem?: string;
}

/** Records a change of an overlay. */
export type OverlayRecorder = (before: Overlay | undefined, after: Overlay | undefined) => Promise<unknown>;

/** Overlays of one installation, in memory and in files that survive a restart. */
export class OverlayStore {
  readonly #overlays = new Map<string, Overlay>();
  #last: Promise<unknown> = Promise.resolve();

  private constructor(readonly dir: string) {}

  /**
   * Reads all overlay files; an invalid file does not affect the others.
   *
   * @param onProblem called for each file that is not a valid overlay
   */
  static async open(dir: string, onProblem?: (message: string) => void): Promise<OverlayStore> {
    const store = new OverlayStore(dir);
    await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
    const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
    for (const name of names.filter((name) => /^[^.].*\.json$/.test(name)).sort()) {
      try {
        const overlay = await readOverlay(join(dir, name));
        if (`${overlay.id}.json` !== name) {
          throw new SbxError(
            "detection.invalid",
            `the file name does not match the overlay id "${overlay.id}"`,
          );
        }
        store.#overlays.set(overlay.id, overlay);
        if (overlay.problem !== undefined) onProblem?.(`${join(dir, name)}: ${overlay.problem}`);
      } catch (error) {
        onProblem?.(`${join(dir, name)}: ${readProblem(error)}`);
      }
    }
    return store;
  }

  /** All overlays, sorted by id. */
  list(): Overlay[] {
    return [...this.#overlays.values()].sort((a, b) => a.id < b.id ? -1 : 1);
  }

  /** IR of all enabled overlays. */
  irs(): Compiled[] {
    return enabledIrs(this.list());
  }

  /** Sinks for the findings of each overlay that names some. */
  exportRoutes(): Record<string, ExportRoute[]> {
    return exportRoutes(
      this.list().flatMap(({ enabled, ir, export_routes }) => enabled && ir ? [{ ir, export_routes }] : []),
    );
  }

  /**
   * Adds an overlay or replaces the one with the same id, and writes its file.
   *
   * @param accept checks an enabled overlay beside the IR of the other ones, and throws to reject it
   * @param options `replaces` false: an overlay of the same id is a `detection.conflict`; `record` is called
   * before the change takes place, and prevents it by throwing
   * @throws {SbxError} `detection.invalid`, `detection.revoked`, `detection.limit`, errors of `accept`
   */
  put(
    input: OverlayInput,
    accept?: (added: Compiled, others: Compiled[]) => void,
    { replaces = true, record }: { replaces?: boolean; record?: OverlayRecorder } = {},
  ): Promise<Overlay> {
    return this.#inTurn(async () => {
      const parsed = OverlayInputSchema.safeParse(input);
      if (!parsed.success) {
        throw new SbxError("detection.invalid", "invalid overlay: no pack, rule or file of Sigma rules", {
          cause: parsed.error,
          hint: 'send {"pack": …}, {"rule": …} or {"sigma": …}, as docs/reference/api.md describes',
        });
      }
      const overlay = await overlayOf(parsed.data);
      if (!replaces && this.#overlays.has(overlay.id)) {
        throw new SbxError("detection.conflict", `there is a runtime detection "${overlay.id}" already`, {
          hint:
            `sbx detection add --replace FILE updates it, and sbx detection remove ${overlay.id} removes it`,
        });
      }
      if (!this.#overlays.has(overlay.id) && this.#overlays.size >= OVERLAYS_MAX) {
        throw new SbxError("detection.limit", `${OVERLAYS_MAX} overlays exist, the maximum`, {
          hint: "sbx detection remove ID removes one; many rules can be one pack",
        });
      }
      const others = enabledIrs(this.list().filter(({ id }) => id !== overlay.id));
      if (overlay.enabled && overlay.ir) accept?.(overlay.ir, others);
      const file = { schema: "sbx.detection-overlay.v1", id: overlay.id, overlay: parsed.data };
      await record?.(this.#overlays.get(overlay.id), overlay);
      await writeAtomic(this.#path(overlay.id), JSON.stringify(file, null, 2) + "\n");
      this.#overlays.set(overlay.id, overlay);
      return overlay;
    });
  }

  /** Removes an overlay and its file. @throws {SbxError} `detection.not_found` */
  remove(id: string, record?: OverlayRecorder): Promise<Overlay> {
    return this.#inTurn(async () => {
      const overlay = this.#overlays.get(id);
      if (!overlay) {
        throw new SbxError("detection.not_found", `there is no runtime detection ${JSON.stringify(id)}`, {
          hint: "list detections with sbx detection list; only those with scope runtime can be removed",
        });
      }
      await record?.(overlay, undefined);
      await Deno.remove(this.#path(id)).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
      this.#overlays.delete(id);
      return overlay;
    });
  }

  /** Serializes changes, to keep memory and files consistent. */
  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const next = this.#last.then(change);
    this.#last = next.catch(ignore("the caller gets the error"));
    return next;
  }

  #path(id: string): string {
    return join(this.dir, `${id}.json`);
  }
}

function enabledIrs(overlays: readonly Overlay[]): Compiled[] {
  return overlays.flatMap(({ enabled, ir }) => enabled && ir ? [ir] : []);
}

async function readOverlay(path: string): Promise<Overlay> {
  const parsed = FileSchema.safeParse(JSON.parse(new TextDecoder().decode(await readBytes(path, FILE_MAX))));
  if (!parsed.success) throw new SbxError("detection.invalid", "not an overlay file");
  const { id, overlay } = parsed.data;
  try {
    return await overlayOf(overlay);
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    const definition = "pack" in overlay ? overlay.pack : "rule" in overlay ? overlay.rule : overlay.sigma;
    return { id, enabled: overlay.enabled, definition, export_routes: [], problem: error.message };
  }
}

function readProblem(error: unknown): string {
  if (error instanceof SbxError) return error.message;
  return error instanceof SyntaxError ? "not JSON" : "cannot be read";
}

/** Tests whether an overlay's definition is a rule; others are packs. */
export function isRuleInput(definition: unknown): boolean {
  return RuleInputSchema.safeParse(definition).success;
}

/** Tests whether an overlay's definition is files of Sigma rules. */
export function isSigmaSource(definition: unknown): boolean {
  return RuleSourceSchema.safeParse(definition).success;
}

/**
 * Compiles an overlay's definition, a pack, a rule, or files of Sigma rules.
 * @throws {SbxError} `detection.invalid`
 */
export async function irOfInput(definition: unknown): Promise<Compiled> {
  const sigma = RuleSourceSchema.safeParse(definition);
  if (sigma.success) return compileSource(sigma.data).plan;
  const rule = RuleInputSchema.safeParse(definition);
  return rule.success ? await irOfRule(rule.data) : await compileOrThrow(packOf(definition));
}

async function overlayOf(input: z.output<typeof OverlayInputSchema>): Promise<Overlay> {
  const { enabled } = input;
  if ("sigma" in input) {
    const { plan } = compileSource(input.sigma);
    return { id: input.sigma.id, enabled, definition: input.sigma, export_routes: [], ir: plan };
  }
  if (!("pack" in input)) {
    const ir = await irOfRule(input.rule);
    requireInstallable(ir);
    return { id: input.rule.id, enabled, definition: input.rule, export_routes: [], ir };
  }
  const pack = packOf(input.pack);
  const ir = await compileOrThrow(pack);
  requireInstallable(ir);
  const export_routes = pack.pack?.findings.export_routes.filter(isExportRoute) ?? [];
  return { id: ir.pack_id, enabled, definition: input.pack, export_routes, ir };
}

// Compiler of a single detection in a request: an IR rule, or Sigma with a field mapping.

/** Pack id of rules outside any pack. */
export const RUNTIME_PACK = "runtime";

/** Compiles one detection. @throws {SbxError} `detection.invalid`: with every problem */
export function irOfRule(input: RuleInput): Promise<DetectionIr> {
  const pack = { pack_id: RUNTIME_PACK, pack_version: "1", pack_status: "active", owner: "user" } as const;
  if (!("sigma" in input)) return Promise.resolve({ schema: IR_SCHEMA, ...pack, rules: [input] });
  const { id, sigma, field_mapping } = input;
  return compileOrThrow(packOf({
    schema: PACK_SCHEMA,
    id: RUNTIME_PACK,
    version: pack.pack_version,
    status: pack.pack_status,
    owner: pack.owner,
    field_mapping,
    sources: [{ id, type: "sigma", format: "yaml", content: sigma }],
  }));
}

// Active detections, as the API shows them (docs/design/contracts/06-detection.md §6).

/** Origin of a detection. */
export type DetectionScope = "profile" | "user" | "corp" | "runtime";

/** One entry of `GET /detection`: a rule of a pack, or a whole overlay. */
export interface DetectionView {
  /** rule id, or overlay id for `DELETE /detection/{id}` */
  id: string;
  pack_id: string;
  scope: DetectionScope;
  enabled: boolean;
  compiled: boolean;
  match_count: number;
  last_matched_event: string | null;
  last_matched_unix_ms: number | null;
  definition: unknown;
  /** present while the rule is switched off */
  off?: Omit<OffRule, "id">;
}

/** The rules that are switched off, by their ids. */
export type OffById = ReadonlyMap<string, OffRule>;

/**
 * Views of a pack's rules with their counters.
 *
 * @param counters counters of any rules and any number of VMs
 */
export function packViews(
  scope: DetectionScope,
  pack: Compiled,
  counters: readonly RuleCounter[],
  off: OffById = new Map(),
): DetectionView[] {
  const { pack_id } = pack;
  const packCounters = mergeCounters(counters.filter((counter) => counter.pack_id === pack_id));
  const byRule = new Map(packCounters.map((counter) => [counter.rule_id, counter]));
  return rulesOf(pack).map((rule) => ({
    id: rule.id,
    pack_id,
    scope,
    enabled: true,
    compiled: true,
    ...countsOf(byRule.get(rule.id)),
    definition: rule,
    ...maySwitchOff(pack) && scope !== "corp" && offOf(off.get(rule.id)),
  }));
}

/** View of an overlay with the sum of its rules' counters. */
export function overlayView(
  { id, enabled, ir, definition }: Overlay,
  counters: readonly RuleCounter[],
  off: OffById = new Map(),
): DetectionView {
  const rules = new Set(ir ? rulesOf(ir).map((rule) => rule.id) : []);
  const overlayCounters = counters.filter(({ rule_id, pack_id }) =>
    pack_id === ir?.pack_id && rules.has(rule_id)
  );
  const [sum] = mergeCounters(overlayCounters.map((counter) => ({ ...counter, rule_id: id })));
  return {
    id,
    pack_id: ir?.pack_id ?? RUNTIME_PACK,
    scope: "runtime",
    enabled,
    compiled: ir !== undefined,
    ...countsOf(sum),
    definition,
    // An overlay that is one rule has its own switch, and the rule's beside it.
    ...ir && maySwitchOff(ir) && rules.has(id) && offOf(off.get(id)),
    ...(ir && ir.rules.some((rule) => rule.id !== id) && {
      rules: ir.rules.map((rule) => ({
        id: rule.id,
        title: rule.title,
        severity: rule.severity,
        ...countsOf(mergeCounters(overlayCounters).find(({ rule_id }) => rule_id === rule.id)),
        ...maySwitchOff(ir) && offOf(off.get(rule.id)),
      })),
    }),
  };
}

function offOf(rule: OffRule | undefined) {
  if (!rule) return {};
  const { id: _, ...off } = rule;
  return { enabled: false, off };
}

function countsOf(counter: RuleCounter | undefined) {
  return {
    match_count: counter?.match_count ?? 0,
    last_matched_event: counter?.last_matched_event ?? null,
    last_matched_unix_ms: counter?.last_matched_unix_ms ?? null,
  };
}
