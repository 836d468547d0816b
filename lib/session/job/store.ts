/** Folders of jobs on disk: `job.json` and the segments of the output. */
import { join } from "node:path";
import { writeAtomic } from "../../base/home/mod.ts";
import { JobRecord } from "./schema.ts";

export function jobDir(jobsDir: string, id: string): string {
  return join(jobsDir, id);
}

/** Reads the jobs of a VM, the oldest first. One whose file is damaged is left out. */
export async function readJobs(jobsDir: string): Promise<JobRecord[]> {
  const jobs: JobRecord[] = [];
  try {
    for await (const { name } of Deno.readDir(jobsDir)) {
      const text = await Deno.readTextFile(join(jobsDir, name, "job.json")).catch(() => "null");
      const { data } = JobRecord.safeParse(parse(text));
      if (data?.id === name) jobs.push(data);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return jobs.sort((a, b) => a.started_at.localeCompare(b.started_at));
}

export async function writeJob(jobsDir: string, job: JobRecord): Promise<void> {
  await writeAtomic(join(jobDir(jobsDir, job.id), "job.json"), JSON.stringify(job) + "\n");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
