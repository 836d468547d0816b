/** Removes a file or a socket, if it is there. */
export function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/**
 * Removes a folder and all in it, if it is there. A guest may have taken this user's permissions from a
 * folder of its workspace, which keeps its content.
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
