/** Default rules of corp and profile: one of each id is in force, corp's before the profile's. */
import { assertEquals } from "@std/assert";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compileLayers } from "../../../lib/policy/mod.ts";
import { http } from "../../helper/policy.ts";

const DEFAULTS = (name: string, ...ids: string[]) =>
  parseRules(
    ids.map((id) =>
      `[default.${id}]\nname = "${name}"\naction = "block"\nmatch = 'http.request.path == "/${id}"'\n`
    )
      .join(""),
    "rules.toml",
  );

Deno.test("a default of corp replaces the profile's of the same id; the profile's others stay", () => {
  const policy = compileLayers({
    corp: { rules: DEFAULTS("of corp", "shared", "corp") },
    profile: { rules: DEFAULTS("of the profile", "shared", "profile") },
  });
  const decided = (path: string) => {
    const { rule } = policy.evaluate(http({ path })).decision;
    return `${rule.id} ${rule.name}`;
  };
  assertEquals(["/shared", "/corp", "/profile"].map(decided), [
    "shared of corp",
    "corp of corp",
    "profile of the profile",
  ]);
});
