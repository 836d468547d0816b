/**
 * Makes `sbx-<uid>` the folder for temporary files of this process and its children. A compiled Deno unpacks native
 * libraries there, under names that everybody can foresee: in a folder of all users the first one's files would be in the
 * way of the others, or loaded by them (docs/contracts.md §1). Ends the process where the folder is somebody else's.
 */
export function usePrivateTemp(): void {
  const name = `sbx-${Deno.uid()}`;
  const parent = Deno.env.get("TMPDIR") || "/tmp";
  if (parent.endsWith(`/${name}`)) return;
  const dir = `${parent}/${name}`;
  try {
    Deno.mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    // Where no folder can be made, the library's own error says why.
    if (!(error instanceof Deno.errors.AlreadyExists)) return;
    const { isDirectory, uid, mode } = Deno.lstatSync(dir);
    if (!isDirectory || uid !== Deno.uid() || (mode! & 0o077) !== 0) {
      console.error(`sbx: ${dir} belongs to another user, or others may enter it
  remove it, or set TMPDIR to a folder of your own`);
      Deno.exit(1);
    }
  }
  Deno.env.set("TMPDIR", dir);
}
