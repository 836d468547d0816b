/** Files that both a VM and its new image have changed, for people. */
import type { ImageConflicts } from "../../../lib/client/api/mod.ts";
import { asSbxError } from "../../../lib/base/error/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";

/** Most files that a start shows. */
const SHOWN = 10;

const KINDS: Record<ImageConflicts["files"][number]["kind"], string> = {
  changed: "changed by both",
  added: "added by both",
  removed: "removed by the image",
  deleted: "deleted by the VM, changed by the image",
  replaced: "a folder that the VM replaced",
};

export async function readConflicts(client: Client, name: string): Promise<ImageConflicts> {
  return await client.json<ImageConflicts>("GET", `/vms/${segment(name)}/image-conflicts`);
}

/** The files, one on each line. @param shown most of them */
export function formatConflicts(name: string, { files, total }: ImageConflicts, shown = Infinity): string {
  if (total === 0) return `${name}: its image has changed no file that the VM has changed too`;
  const lists = files.filter(({ is_package_list }) => is_package_list).length;
  const lines = files.slice(0, shown).map(({ path, kind, is_package_list }) =>
    plain(`  ${path}: ${KINDS[kind]}${is_package_list ? ", a list of packages" : ""}`)
  );
  const more = total - lines.length;
  return [
    `${name}: ${count(total, "file")} of the VM differ from its new image; the VM's own are in force`,
    ...lines,
    ...more > 0 ? [`  and ${more} more`] : [],
    ...lists > 0
      ? [
        "The VM's list of packages does not have what the new image installs: its package manager takes those files " +
        "for absent. Install them again, or make a new VM with that image.",
      ]
      : [],
  ].join("\n");
}

/** Shows the conflicts of a VM that has started. A failure is a note: the VM runs. */
export async function showConflicts(client: Client, name: string): Promise<void> {
  try {
    const found = await readConflicts(client, name);
    note(formatConflicts(name, found, SHOWN));
    if (found.total > SHOWN) note(`sbx image conflicts ${name} shows all`);
  } catch (error) {
    note(asSbxError(error, "comparing its image").message);
  }
}
