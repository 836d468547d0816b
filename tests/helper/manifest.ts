/** Valid manifest of one release with these `arches`, to be damaged by tests. */
import type { Parsed } from "./json.ts";

export function manifestOf(arches: Record<string, Record<string, { hash: string; size: number }>>): Parsed {
  return {
    format: 2,
    refresh_policy: "24h",
    assets: {
      current: "2026.0304.1",
      releases: {
        "2026.0304.1": {
          date: "2026-03-04",
          deprecated: false,
          min_binary: "0.1.0",
          arches,
        },
      },
    },
    binaries: {
      current: "0.1.0",
      releases: { "0.1.0": { date: "2026-03-04", deprecated: false, min_assets: "2026.0304.1" } },
    },
  };
}
