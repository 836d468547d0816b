/** The private folder for temporary files of this process and its children. */
import { dirname } from "node:path";

/** Environment searched for a private folder; tests pass another one. */
export interface TempPlace {
  uid: number;
  env: { get(name: string): string | undefined };
}

/**
 * Makes `sbx-<uid>` the folder for temporary files of this process and its children. A compiled Deno unpacks
 * native libraries there, under names that everybody can foresee: in a folder of all users the first one's
 * files would be in the way of the others, or loaded by them (docs/design/contracts/01-homes.md §1). Ends the
 * process where no such folder can be had.
 */
export function usePrivateTemp(): void {
  const { dir, refused } = privateTemp({ uid: Deno.uid() ?? 0, env: Deno.env });
  // Where no folder can be made at all, the library's own error says why.
  if (dir) Deno.env.set("TMPDIR", dir);
  else if (refused) {
    console.error(`sbx: ${refused} belongs to another user, or others may enter it
  remove it, or set TMPDIR to a folder of your own`);
    Deno.exit(1);
  }
}

/**
 * Finds a folder that is this user's alone: below TMPDIR or /tmp, or where another user has taken that name,
 * below XDG_RUNTIME_DIR or the home.
 *
 * @returns the folder, or the first one that is not this user's
 */
export function privateTemp({ uid, env }: TempPlace): { dir?: string; refused?: string } {
  const name = `sbx-${uid}`;
  const parent = env.get("TMPDIR") || "/tmp";
  // Given by the process that started this one.
  if (parent.endsWith(`/${name}`)) return { dir: parent };
  const home = env.get("SBX_HOME") || (env.get("HOME") && `${env.get("HOME")}/.sbx`);
  let refused: string | undefined;
  for (const folder of [parent, env.get("XDG_RUNTIME_DIR"), home && `${home}/tmp`]) {
    if (!folder) continue;
    const dir = `${folder}/${name}`;
    const state = makePrivate(dir, uid, folder === parent);
    if (state === "ours") return { dir };
    if (state === "taken") refused ??= dir;
  }
  return { refused };
}

/**
 * @param isShared the folder above is the system's; another one is made where it is
 * missing, and must be this user's
 */
function makePrivate(dir: string, uid: number, isShared: boolean): "ours" | "taken" | "impossible" {
  try {
    if (!isShared) {
      const parent = dirname(dir);
      Deno.mkdirSync(parent, { recursive: true, mode: 0o700 });
      // Of another user after `su`, for example: who may write there could exchange the folder.
      if (!isOwn(parent, uid, 0o022)) return "impossible";
    }
    Deno.mkdirSync(dir, { mode: 0o700 });
    return "ours";
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) return "impossible";
  }
  return isOwn(dir, uid, 0o077) ? "ours" : "taken";
}

/** @param forbidden bits of its mode that others may not have */
function isOwn(dir: string, uid: number, forbidden: number): boolean {
  const { isDirectory, uid: owner, mode } = Deno.lstatSync(dir);
  return isDirectory && owner === uid && (mode! & forbidden) === 0;
}
