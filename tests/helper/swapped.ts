/** A folder that its owner swaps for a link while the code under test walks through it. */
import { limitChild } from "./child.ts";

/**
 * Runs `work` while the folder `d` of `place` is swapped for a link to `outside`, and back, thousands of
 * times a second. The last swap has ended when it returns: one process makes them all, whereas the
 * programs of a killed shell go on.
 */
export async function whileSwapped(
  place: string,
  outside: string,
  work: () => Promise<void>,
): Promise<void> {
  // On a busy machine it begins late, so it says when. Where the code under test has made a folder `d`
  // meanwhile, the one that stood aside goes elsewhere.
  const script = `syswrite STDOUT, "begun";
  while (1) {
    rename "d", "e" or rename "e", "e" . $n++;
    symlink $ARGV[0], "d";
    unlink "d";
    rename "e", "d";
  }`;
  const swapper = limitChild(
    new Deno.Command("perl", { args: ["-e", script, outside], cwd: place, stdout: "piped", stderr: "null" })
      .spawn(),
  );
  try {
    const output = swapper.stdout.getReader();
    await output.read();
    await output.cancel();
    await work();
  } finally {
    swapper.kill("SIGKILL");
    await swapper.status;
  }
}
