/** The work of a VM on a folder, and its last activity, in words. */
import type { VmListed } from "../../../lib/client/api/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";

/** Amount of the work that no pull took. @returns "all pulled"; "": it is not known */
export function formatUntaken(folder: VmListed["folder"]): string {
  if (!folder?.untaken) return "";
  const { commits, files } = folder.untaken;
  const parts = [commits > 0 && count(commits, "commit"), files > 0 && count(files, "file")];
  return parts.filter(Boolean).join(" and ") || ALL_PULLED;
}

export const ALL_PULLED = "all pulled";

/** A moment of the person's day. */
export function formatTime(iso: string): string {
  const date = new Date(iso);
  const two = (number: number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}
