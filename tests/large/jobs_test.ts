/** A gigabyte of output of one job, and 1,000 jobs of one VM: `make test-large`. */
import { assert, assertEquals } from "@std/assert";
import { JOB_OUTPUT_BYTES, JOBS_KEPT } from "../../lib/session/job/mod.ts";
import { Sbx } from "../helper/sbx.ts";

const MB = Number(Deno.env.get("JOB_MB") ?? 1024);
const JOBS = Number(Deno.env.get("JOBS") ?? 1000);
/** Most memory of a VM's process, in `KiB`. */
const MEMORY_KIB = 400 * 1024;

async function memoryOf(sbx: Sbx): Promise<number> {
  const { pid } = JSON.parse(await sbx.ok("info", "dev", "--json"));
  return Number(/^VmRSS:\s+(\d+)/m.exec(await Deno.readTextFile(`/proc/${pid}/status`))![1]);
}

Deno.test("long output and many jobs", async (t) => {
  const sbx = await Sbx.make();
  try {
    await sbx.ok("create", "dev");

    await t.step(`of ${MB} MiB of output the end is kept, in bounded memory`, async () => {
      const began = performance.now();
      const line = `head -c ${MB}M /dev/zero | tr '\\0' x; echo; echo end`;
      const id = (await sbx.ok("exec", "--detach", "dev", "--", "sh", "-c", line)).trim();
      for (;;) {
        const { jobs } = JSON.parse(await sbx.ok("jobs", "dev", "--json"));
        if (jobs[0].state === "Ended") break;
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
      const { stderr, stdout: kept } = await sbx.cli("jobs", "logs", id);
      assert(kept.endsWith("x\nend\n"));
      assert(kept.length <= JOB_OUTPUT_BYTES && kept.length > JOB_OUTPUT_BYTES / 2, `${kept.length}`);
      assertEquals(stderr, `sbx: ${MB * 1024 * 1024 + 5 - kept.length} bytes of output were not kept\n`);
      const memory = await memoryOf(sbx);
      console.log(
        `${MB} MiB in ${Math.round((performance.now() - began) / 1000)} s, process ${memory >> 10} MiB`,
      );
      assert(memory < MEMORY_KIB, `${memory} KiB`);
    });

    await t.step(`of ${JOBS} jobs all run, and the last are kept`, async () => {
      const began = performance.now();
      for (let at = 0; at < JOBS;) {
        const command = ["sh", "-c", `echo ${at} >>/root/ran; exit ${at % 7}`];
        const { status, body } = await sbx.api("POST", "/vms/dev/jobs", { command });
        if (status === 200) at++;
        // Started faster than they end: 64 may run at once.
        else assertEquals([status, body.code], [503, "vm.busy"]);
      }
      await sbx.ok("exec", "dev", "-c", `until [ "$(wc -l </root/ran)" = ${JOBS} ]; do sleep 0.2; done`);
      const { jobs } = JSON.parse(await sbx.ok("jobs", "dev", "--json"));
      assertEquals(jobs.length, JOBS_KEPT);
      const memory = await memoryOf(sbx);
      console.log(
        `${JOBS} jobs in ${Math.round((performance.now() - began) / 1000)} s, process ${memory >> 10} MiB`,
      );
      assert(memory < MEMORY_KIB, `${memory} KiB`);
      await sbx.ok("verify", "dev");
    });
  } finally {
    await sbx.dispose();
  }
});
