/** The clock of a guest beside that of its host. */
import { eventually, type Sbx } from "../helper/sbx.ts";

/** Largest deviation, in `ms`. */
const DEVIATION_MAX = 50;
/**
 * Writes a file to each disk, and prints by how much its time lies outside of the moments before
 * and after, by the guest's clock, in `ms`. A file of the workspace has the host's time. The
 * kernel notes times in steps of 4 ms.
 */
const MEASURE = `
import os, time
for folder in ("/workspace", "/root"):
    path = folder + "/clock"
    before = time.time_ns()
    with open(path, "w") as file: file.write("x")
    after = time.time_ns()
    mtime = os.stat(path).st_mtime_ns
    print(max(before - mtime, mtime - after, 0) / 1e6)
`;

/**
 * Requires that files on both disks have the time of the guest's clock; one that
 * was read late is corrected soon.
 */
export async function requireClock(sbx: Sbx, name: string): Promise<void> {
  let seen = "";
  await eventually("the clock is the host's", async () => {
    seen = await sbx.ok("exec", name, "--", "python3", "-c", MEASURE);
    const deviations = seen.trim().split("\n").map(Number);
    return deviations.length === 2 && deviations.every((ms) => ms <= DEVIATION_MAX);
  }, 60).catch((error) => {
    throw new Error(`${error.message}: off by ${seen.trim().replace("\n", " and ")} ms`);
  });
}
