import type { Home } from "../../base/home/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import { listProfiles } from "../../config/profile/mod.ts";
import { corpLayer, profileLayer } from "../../home/mod.ts";

/** Lists rules of profiles that pass TLS uninspected without effect, since corp's rules read the content there. */
export async function passthroughIssues(home: Home, store: CorpStore): Promise<string[]> {
  // Rules that cannot be read are issues of their own.
  const corp = await corpLayer(store).catch(() => undefined);
  if (!corp?.rules.length) return [];
  const issues: string[] = [];
  for (const each of await listProfiles(home)) {
    if ("error" in each) continue;
    const profile = await profileLayer(each.profile).catch(() => undefined);
    // The engine takes time to load, and few profiles pass a host.
    if (!profile?.rules.some(({ rewrite }) => rewrite?.some(({ path }) => path === "http.request.scheme"))) {
      continue;
    }
    const { compileLayers } = await import("../../policy/mod.ts");
    const { lintPolicy } = await import("../../policy/author/mod.ts");
    const lints = lintPolicy(compileLayers({ corp, profile })).filter(({ code }) => code === "passthrough");
    issues.push(
      ...lints.map(({ rule_id, message }) => `profile "${each.profile.id}": rule "${rule_id}": ${message}`),
    );
  }
  return issues;
}
