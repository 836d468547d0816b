import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { segment } from "../../../lib/client/mod.ts";

/** Option of every `sbx mcp` command: the profile with the servers. */
export const PROFILE_OPTION: Option = {
  name: "profile",
  short: "p",
  value: "ID",
  about: "profile; default code",
};

/** Path of a profile's MCP routes. */
export function mcpPath(args: Arguments): string {
  return `/profiles/${segment(args.text("profile") ?? "code", "profile")}/mcp`;
}
