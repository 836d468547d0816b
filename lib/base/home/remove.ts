import { backgroundInterval } from "../time/mod.ts";

/** Removes a file or a socket, if it is there. */
export function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/**
 * Removes a folder and all in it, if it is there. A guest may have taken this user's permissions from a folder of its
 * workspace, which keeps its content.
 */
export async function removeFolder(path: string): Promise<void> {
  try {
    await Deno.remove(path, { recursive: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    await openFolders(path);
    await Deno.remove(path, { recursive: true });
  }
}

/** Gives this user all permissions of a folder and its subfolders; links are not followed. */
async function openFolders(path: string): Promise<void> {
  const folders = [path];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    await Deno.chmod(folder, 0o700);
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      if (isDirectory) folders.push(`${folder}/${name}`);
    }
  }
}

/** Time between two checks of a folder, in `ms`. */
const LOOK_MS = 10_000;

/**
 * Calls `then` when a folder is gone or was replaced: its program is out of reach once its files are removed,
 * and would never end.
 */
export async function onRemoval(dir: string, then: () => void): Promise<void> {
  const { dev, ino } = await Deno.stat(dir);
  const timer = backgroundInterval(async () => {
    const now = await Deno.stat(dir).catch((error) =>
      error instanceof Deno.errors.NotFound ? undefined : { dev, ino }
    );
    if (now?.dev === dev && now.ino === ino) return;
    clearInterval(timer);
    then();
  }, LOOK_MS);
}
