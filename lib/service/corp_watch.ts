import type { CorpStore } from "../corp/mod.ts";
import { type Watch, watchFiles } from "../settings/mod.ts";
import { corpFiles } from "./contract.ts";

/** Calls `onChange` when corp.toml, or a file of rules or detections that it names, changes. */
export function watchCorp(corp: CorpStore, onChange: () => Promise<void>): Watch {
  let watch: Watch;
  let isClosed = false;
  const start = () => {
    const { state, paths } = corp;
    // The files of a rejected corp.toml too: they may be the reason.
    const rejected = "rejected" in state ? state.rejected ?? [] : [];
    const configs = ["config" in state ? state.config : [], rejected].flat();
    const files = configs.flatMap(corpFiles);
    watch = watchFiles([...new Set([...paths, ...files])], async () => {
      await corp.load();
      await onChange();
      if (isClosed) return;
      watch.close();
      start();
    });
  };
  start();
  const close = () => {
    isClosed = true;
    watch.close();
  };
  return { close, [Symbol.dispose]: close };
}
