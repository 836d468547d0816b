/** Files of a folder as one stream, by the host's tar, which keeps links, modes and times. */
import { SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import { fromLatin1 } from "./text.ts";

/**
 * The named files and the folders above them.
 *
 * @param files as `latin1`
 * @param os system of the tar: macOS's has fewer options, and would add Finder's metadata
 * @throws {SbxError} `repo.unreadable`: tar cannot read one
 */
export async function* archive(
  dir: string,
  files: string[],
  os: string = Deno.build.os,
): AsyncGenerator<Uint8Array> {
  const folders = new Set(files.flatMap((path) => {
    const parts = path.split("/").slice(0, -1);
    return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
  }));
  const child = new Deno.Command("tar", {
    args: [
      "--create",
      "--directory",
      dir,
      "--format=posix",
      "--no-recursion",
      "--null",
      ...os === "darwin" ? [] : ["--verbatim-files-from", "--sort=none"],
      ...["--files-from=-", "--file=-"],
    ],
    env: { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin", LC_ALL: "C", COPYFILE_DISABLE: "1" },
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const list = fromLatin1([...folders, ...files].map((path) => `./${path}\0`).join(""));
  const writer = child.stdin.getWriter();
  const written = writer.write(list as Uint8Array<ArrayBuffer>).then(() => writer.close()).catch(() => {});
  const words = new Response(child.stderr).text();
  yield* child.stdout;
  await written;
  const { success } = await child.status;
  if (success) return;
  throw new SbxError(
    "repo.unreadable",
    `"${dir}" cannot be read: ${plain((await words).trim()).slice(0, 400)}`,
    {
      hint: "a file that changes meanwhile cannot be sent; try again",
    },
  );
}
