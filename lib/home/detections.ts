import { join } from "node:path";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { exportRoutes, type LoadedPack, loadPack, OverlayStore } from "../detection/active/mod.ts";
import { dropDuplicates } from "../detection/mod.ts";
import type { Contract } from "../session/mod.ts";

type DetectionTerms = Contract["detection"];

/**
 * Detections of one home that belong neither to a profile nor to corp: the user's packs, files in
 * `$SBX_HOME/detection/packs`, and the overlays that are added while VMs run.
 */
export class Detections {
  readonly #dir: string;
  #overlays?: Promise<OverlayStore>;
  /** problems of overlay files and of the user's packs, as they were last read */
  #overlayProblems: string[] = [];
  #packProblems: string[] = [];
  /** rules left out, by the id of the profile that they were left out for */
  readonly #dropped = new Map<string, string[]>();

  constructor({ dir }: Pick<Home, "dir">) {
    this.#dir = join(dir, "detection");
  }

  /** Folder of the user's packs. */
  get packs(): string {
    return join(this.#dir, "packs");
  }

  /** Overlays, read at the first call. */
  overlays(): Promise<OverlayStore> {
    this.#overlays ??= OverlayStore.open(join(this.#dir, "overlays"), (message) => {
      this.#overlayProblems.push(message);
      log.warn(message);
    });
    return this.#overlays;
  }

  /** IR of the user's packs and of the active overlays, with their sinks. */
  async irs(): Promise<DetectionTerms> {
    const [overlays, user] = await Promise.all([this.overlays(), this.#userPacks()]);
    return {
      user: user.map(({ ir }) => ir),
      runtime: overlays.irs(),
      export_routes: { ...overlays.exportRoutes(), ...exportRoutes(user) },
    };
  }

  /**
   * Notes the rules that are left out of a contract, for {@linkcode problems}.
   *
   * @param key profile of the contract; a later call replaces the noted rules
   */
  noteDropped(key: string, contract: Pick<Contract, "corp" | "profile" | "detection">): void {
    const { corp, profile, detection } = contract;
    const { dropped } = dropDuplicates([
      ...corp.packs,
      ...profile.packs,
      ...detection.user,
      ...detection.runtime,
    ]);
    const problems = dropped.map(({ rule_id, pack_id, kept }) =>
      `the detection "${rule_id}" of the pack "${pack_id}" is left out: the pack "${kept}" has one of that id ` +
      "(rename or remove one of the two; sbx detection list shows them)"
    );
    const known = this.problems();
    for (const problem of problems) if (!known.includes(problem)) log.warn(problem);
    this.#dropped.set(key, problems);
  }

  /** Inactive detections, each with the reason. */
  problems(): string[] {
    return [...this.#overlayProblems, ...this.#packProblems, ...[...this.#dropped.values()].flat()];
  }

  /** Forgets the rules that were left out, before a change that may bring them in again. */
  forgetDropped(): void {
    this.#dropped.clear();
  }

  /** A pack that is broken or revoked is reported and skipped. */
  async #userPacks(): Promise<LoadedPack[]> {
    const dir = this.packs;
    const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name).catch((): string[] => []);
    const packs: LoadedPack[] = [];
    const problems: string[] = [];
    for (const name of names.filter((name) => /^[^.].*\.(ya?ml|toml|json)$/.test(name)).sort()) {
      try {
        packs.push(await loadPack(join(dir, name)));
      } catch (error) {
        const [message] = (error as Error).message.split("\n");
        problems.push(message);
        if (!this.#packProblems.includes(message)) log.warn((error as Error).message);
      }
    }
    this.#packProblems = problems;
    return packs;
  }
}
