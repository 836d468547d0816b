import { join } from "node:path";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { type LoadedPack, loadPack, OverlayStore } from "../detection/live/mod.ts";
import type { DetectionIr } from "../detection/mod.ts";

/**
 * Detections of one home that belong neither to a profile nor to corp: the user's packs, files in
 * `$SBX_HOME/detection/packs`, and the overlays that are added while VMs run.
 */
export class Detections {
  readonly #dir: string;
  #overlays?: Promise<OverlayStore>;

  constructor({ dir }: Pick<Home, "dir">) {
    this.#dir = join(dir, "detection");
  }

  /** Overlays, read at the first call. */
  overlays(): Promise<OverlayStore> {
    this.#overlays ??= OverlayStore.open(join(this.#dir, "overlays"), (message) => {
      log(message);
    });
    return this.#overlays;
  }

  /** IR of the user's packs and of the overlays in force. */
  async irs(): Promise<{ user: DetectionIr[]; runtime: DetectionIr[] }> {
    const [overlays, user] = await Promise.all([this.overlays(), this.#userPacks()]);
    return { user: user.map(({ ir }) => ir), runtime: overlays.irs() };
  }

  /** A pack that is broken or revoked is logged and skipped. */
  async #userPacks(): Promise<LoadedPack[]> {
    const dir = join(this.#dir, "packs");
    const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name).catch((): string[] => []);
    const packs: LoadedPack[] = [];
    for (const name of names.filter((name) => /^[^.].*\.(ya?ml|toml|json)$/.test(name)).sort()) {
      try {
        packs.push(await loadPack(join(dir, name)));
      } catch (error) {
        log((error as Error).message);
      }
    }
    return packs;
  }
}
