/**
 * Memory that service and gateway hold when nobody uses them, and one sbx-process without its machine, beside
 * the floor: an empty program under the same Deno that waits.
 */
import { Sbx } from "../helper/sbx.ts";
import { rounded } from "../helper/statistics.ts";

/** Long enough for what a start leaves to be collected. */
const IDLE_MS = 3000;

/** Resident megabytes of a process. */
function rssMb(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`))![1];
  return rounded(Number(kilobytes) / 1024, 1);
}

const sbx = await Sbx.make();
const source = await Deno.makeTempFile({ suffix: ".ts" });
await Deno.writeTextFile(source, "setInterval(() => {}, 1e9);");
const empty = new Deno.Command(Deno.execPath(), { args: ["run", "--quiet", "--no-config", source] }).spawn();
try {
  const idle = () => new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  await sbx.ok("start");
  await idle();
  const floor = rssMb(empty.pid);
  const [service, gateway] = [rssMb(sbx.pid("service")), rssMb(sbx.pid("gateway"))];
  await sbx.ok("create", "bench");
  await idle();
  const { pid } = JSON.parse(await sbx.ok("info", "bench", "--json"));
  console.log(JSON.stringify({
    name: "memory",
    unit: "MiB resident",
    ratio: rounded((service + gateway) / floor),
    floor,
    value: rounded(service + gateway, 1),
    service,
    gateway,
    process: rssMb(pid),
  }));
} finally {
  empty.kill("SIGKILL");
  await empty.status;
  await Deno.remove(source);
  await sbx.dispose();
}
