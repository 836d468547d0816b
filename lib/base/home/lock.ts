/**
 * Takes the exclusive lock of an open file, or gives up after `ms`. The kernel frees it when the file is closed, however
 * that happens. One that was given up is freed as soon as it is granted, because its file is closed by then.
 *
 * Made of `lock` alone, which occupies one of Deno's few blocking threads while it waits: the runtime that compiled
 * programs are tested with has no `tryLock`.
 *
 * @returns whether it is held
 */
export async function lockWithin(file: Deno.FsFile, ms: number): Promise<boolean> {
  const locked = file.lock(true).then(() => true);
  // Given up, it may still fail, and nobody looks.
  locked.catch(() => {});
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => timer = setTimeout(() => resolve(false), ms));
  try {
    return await Promise.race([locked, late]);
  } finally {
    clearTimeout(timer);
  }
}
