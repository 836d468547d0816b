import { type Arch, currentArch } from "../../base/arch/mod.ts";
import type { SbxError } from "../../base/error/mod.ts";
import type { Profile } from "./profile.ts";
import type { Obom } from "./schema.ts";

/** Answer of `GET /profiles/{id}/info` (docs/design/contracts/04-profiles.md §4). */
export interface ProfileInfo {
  profile: {
    id: string;
    name: string;
    description: string;
    icon_svg?: string;
    revision: string;
    min_sbx_version?: string;
    compatible: boolean;
    source: Profile["source"];
    rule_count: number;
    default_rule_count: number;
    mcp_server_count: number;
    pack_count: number;
  };
  obom?: Obom & {
    profile_id: string;
    current_arch: Arch;
    scope: "base_image";
    format: "cyclonedx-obom.v1";
    route: string;
    /** reason that its file cannot be read, and a remedy */
    problem?: string;
  };
}

/** Input of {@linkcode profileInfo} beside the profile. */
export interface ProfileInfoOptions {
  /** number of default rules of the policy engine */
  defaultRuleCount: number;
  arch?: Arch;
  /** descriptor of the OBOM; default is the profile's own for `arch` */
  obom?: Obom;
  /** fault of the OBOM file */
  obomProblem?: SbxError;
}

/** Builds the answer of `GET /profiles/{id}/info`. */
export function profileInfo(
  profile: Profile,
  { defaultRuleCount, arch = currentArch(), obom = profile.obom?.arch[arch], obomProblem }:
    ProfileInfoOptions,
): ProfileInfo {
  const { id, name, description, icon_svg, revision, min_sbx_version, compatible, source } = profile;
  return {
    profile: {
      id,
      name,
      description,
      ...(icon_svg !== undefined && { icon_svg }),
      revision,
      ...(min_sbx_version !== undefined && { min_sbx_version }),
      compatible,
      source,
      rule_count: Object.keys(profile.rules).length,
      default_rule_count: defaultRuleCount,
      mcp_server_count: Object.keys(profile.mcp).length,
      pack_count: profile.detection.packs.length,
    },
    ...(obom && {
      obom: {
        profile_id: id,
        current_arch: arch,
        scope: "base_image",
        format: "cyclonedx-obom.v1",
        ...obom,
        route: `/profiles/${id}/obom`,
        ...(obomProblem && { problem: `${obomProblem.message} (${obomProblem.hint})` }),
      },
    }),
  };
}
