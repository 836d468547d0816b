/**
 * Corp on this host: its limits on the version of sbx and on profiles (docs/design/contracts/03-settings.md
 * §3, "Corp limits"), and changes of its files.
 */
import { SbxError } from "../../base/error/mod.ts";
import { isCompatible } from "../../base/semver/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import { type Watch, watchFiles } from "../../config/settings/mod.ts";
import { corpFiles } from "../../home/mod.ts";

type Corp = Pick<CorpStore, "state" | "path">;

/** Refuses to boot with an sbx that is older than corp requires. @throws {SbxError} `corp.version` (409) */
export function requireCorpVersion({ state, path }: Corp): void {
  const range = "config" in state ? state.config.file.corp.require?.sbx : undefined;
  if (range === undefined || isCompatible(range.replace(/^>=\s*/, ""))) return;
  throw new SbxError("corp.version", `corp requires sbx ${range} on this host; this is sbx ${VERSION}`, {
    hint: `no VM starts before sbx is updated; ${path} says so`,
  });
}

/** Refuses profiles that corp does not list. @throws {SbxError} `corp.profile` (403) */
export function requireCorpProfile({ state, path }: Corp, id: string): void {
  const profiles = "config" in state ? state.config.file.corp.limits?.profiles : undefined;
  if (profiles === undefined || profiles.includes(id)) return;
  throw new SbxError("corp.profile", `corp does not allow VMs of profile "${id}"`, {
    hint: profiles.length > 0 ? `${path} allows ${profiles.join(", ")}` : `${path} allows none`,
  });
}

/**
 * Calls `onChange` when corp.toml, or a file of rules or detections that it names, changes. Calls do not
 * overlap, and a change during one is followed by another.
 */
export function watchCorp(corp: CorpStore, onChange: () => Promise<void>): Watch {
  const watch = new CorpWatch(corp, onChange);
  return { close: () => watch.close(), [Symbol.dispose]: () => watch.close() };
}

class CorpWatch {
  readonly #corp: CorpStore;
  readonly #onChange: () => Promise<void>;
  #files: string[];
  #watch: Watch;
  #isClosed = false;
  #isBusy = false;
  #isStale = false;

  constructor(corp: CorpStore, onChange: () => Promise<void>) {
    this.#corp = corp;
    this.#onChange = onChange;
    this.#files = filesOf(corp);
    this.#watch = this.#start();
  }

  close(): void {
    this.#isClosed = true;
    this.#watch.close();
  }

  #start(): Watch {
    return watchFiles(this.#files, () => void this.#follow());
  }

  async #follow(): Promise<void> {
    this.#isStale = true;
    if (this.#isBusy) return;
    this.#isBusy = true;
    try {
      while (this.#isStale && !this.#isClosed) {
        this.#isStale = false;
        await this.#corp.load();
        await this.#onChange();
        this.#follows(filesOf(this.#corp));
      }
    } finally {
      this.#isBusy = false;
    }
  }

  /** Watches other files from now on; they are read once more, because they may have changed meanwhile. */
  #follows(files: string[]): void {
    if (this.#isClosed || files.join("\0") === this.#files.join("\0")) return;
    this.#files = files;
    this.#watch.close();
    this.#watch = this.#start();
    this.#isStale = true;
  }
}

function filesOf({ state, paths }: CorpStore): string[] {
  // The files of a rejected corp.toml too: they may be the reason.
  const rejected = "rejected" in state ? state.rejected ?? [] : [];
  const configs = ["config" in state ? state.config : [], rejected].flat();
  return [...new Set([...paths, ...configs.flatMap(corpFiles)])];
}
