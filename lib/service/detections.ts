import { join } from "node:path";
import type { DetectionIr } from "../detection/mod.ts";
import { type LoadedPack, loadPack } from "../detection/live/load.ts";
import { OverlayStore } from "../detection/live/overlay.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";

/**
 * The detections of one home that belong to no profile and not to corp: the user's packs, files in
 * `$SBX_HOME/detection/packs`, and the overlays that are put in while VMs run.
 */
export class Detections {
  readonly #dir: string;
  #overlays?: Promise<OverlayStore>;

  constructor({ dir }: Pick<Home, "dir">) {
    this.#dir = join(dir, "detection");
  }

  /** Overlays, read when they are first needed. */
  overlays(): Promise<OverlayStore> {
    this.#overlays ??= OverlayStore.open(join(this.#dir, "overlays"), (message) => {
      log(message);
    });
    return this.#overlays;
  }

  /** What of both is in force. */
  async irs(): Promise<{ user: DetectionIr[]; runtime: DetectionIr[] }> {
    const [overlays, user] = await Promise.all([this.overlays(), this.#userPacks()]);
    return { user: user.map(({ ir }) => ir), runtime: overlays.irs() };
  }

  /** A pack that is broken or revoked takes no other with it, and no VM: it is told in the log. */
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
