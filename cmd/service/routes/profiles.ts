import type { Hono } from "hono";
import { type ProfileInfo, type ProfileList, profileRoutes } from "../../../lib/client/api/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import {
  listProfiles,
  loadProfile,
  missingObom,
  obomDescriptor,
  profileInfo,
  readObom,
} from "../../../lib/config/profile/mod.ts";
import { handle } from "../handle.ts";

/**
 * Routes of profiles and their evidence.
 *
 * @param countDefaultRules counts the built-in rules, which every profile has
 */
export function routeProfiles(app: Hono, home: Home, countDefaultRules: () => Promise<number>): void {
  handle(app, profileRoutes.list, async (): Promise<ProfileList> => {
    const answer: ProfileList = { profiles: [], broken: [] };
    const defaultRuleCount = await countDefaultRules();
    for (const listed of await listProfiles(home)) {
      if ("profile" in listed) {
        answer.profiles.push(profileInfo(listed.profile, { defaultRuleCount }).profile);
      } else {
        const { id, source, error: { message, code } } = listed;
        answer.broken.push({ id, source, error: message, code });
      }
    }
    return answer;
  });
  handle(app, profileRoutes.info, async ({ params }): Promise<ProfileInfo> => {
    const profile = await loadProfile(home, params.id);
    const [defaultRuleCount, obom, obomProblem] = await Promise.all([
      countDefaultRules(),
      obomDescriptor(home, profile),
      missingObom(home, profile),
    ]);
    return profileInfo(profile, { defaultRuleCount, obom, obomProblem });
  });
  handle(app, profileRoutes.obom, async ({ params }) => {
    const bytes = await readObom(home, await loadProfile(home, params.id));
    return new Response(bytes, { headers: { "content-type": "application/vnd.cyclonedx+json" } });
  });
}
