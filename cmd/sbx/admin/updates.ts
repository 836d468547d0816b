import type { UpdateStatusBody as UpdateStatus } from "../../../lib/client/api/mod.ts";
import { pairs } from "../output.ts";

/** Text of `sbx update status` and `sbx update check`. */
export function formatUpdates(status: UpdateStatus): string {
  return pairs([
    ...updateLines(status),
    ...status.history.map(({ at, what, profile, from, to, source, downgrade }): [string, string] => [
      "change",
      `${at} ${what}${profile === undefined ? "" : ` of ${profile}`}: ${
        from ? `${from} → ` : ""
      }${to} from ${source}${downgrade ? ", a downgrade that was allowed" : ""}`,
    ]),
  ]);
}

/** Lines about updates, for `sbx status` too. */
export function updateLines(
  { version, standing, source, schedule, last_check, assets, problems }: UpdateStatus,
): [string, string][] {
  const lines: [string, string][] = [["sbx", `${version}${standing ? `, ${standing}` : ""}`]];
  for (const each of assets) lines.push(["manifest", formatAssets(each)]);
  if (source) {
    lines.push(["channel", `${source.channel} of ${source.url}${source.is_corps ? ", named by corp" : ""}`]);
    if (schedule) {
      lines.push([
        "checks",
        schedule.interval_secs
          ? `every ${Math.round(schedule.interval_secs / 360) / 10} h (${schedule.reason})`
          : schedule.reason,
      ]);
    }
    lines.push(["last check", formatCheck(last_check)]);
  } else lines.push(["channel", "none is configured"]);
  for (const problem of problems) lines.push(["problem", problem]);
  return lines;
}

function formatAssets(each: UpdateStatus["assets"][number]): string {
  const from = each.source
    ? `${each.origin} ${each.package_version ?? ""} from ${each.source}`.replace("  ", " ")
    : "put there by hand";
  const notes = [each.is_corps ? "corp's" : "", each.deprecated ? "DEPRECATED" : ""].filter(Boolean);
  return [`${each.profile_id} ${each.version} blake3:${each.manifest_blake3}`, from, ...notes].join(", ");
}

function formatCheck(check: UpdateStatus["last_check"]): string {
  if (!check) return "never; sbx update check";
  const { at, problem, release, status, sbx, profiles = [] } = check;
  if (problem !== undefined) return `${at} FAILED: ${problem}`;
  const fresh = profiles.filter(({ state }) => state === "new" || state === "newer").map(({ id, revision }) =>
    `${id} ${revision}`
  );
  return [
    `${at} release ${release} (${status})`,
    ...(sbx ? [`sbx ${sbx} is available`] : []),
    fresh.length > 0
      ? `profiles to install: ${fresh.join(", ")} (sbx update profiles)`
      : "profiles are up to date",
  ].join("; ");
}
