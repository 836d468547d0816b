/**
 * sbx-doctor: checks this guest, for `sbx doctor NAME` on the host and for people
 * in the VM. It changes nothing.
 */
import {
  type CheckId,
  checkLine,
  type CheckResult,
  CHECKS,
  type GuestReport,
} from "../../../lib/support/doctor/mod.ts";
import {
  check,
  checkActivity,
  checkClient,
  checkClock,
  checkDisk,
  checkDns,
  checkEntropy,
  checkMcp,
  checkMemory,
  checkMounts,
  checkNpm,
  CLIENTS,
  handshake,
} from "./checks.ts";

// Together, since most of the time is waiting; the clients after that, which need the network to work.
const tls = handshake();
const results = await Promise.all([
  check("clock", checkClock),
  check("mounts", checkMounts),
  check("disk", checkDisk),
  check("memory", checkMemory),
  check("entropy", checkEntropy),
  check("proxy", async () => (await tls).proxy),
  check("dns", checkDns),
  check("mcp", checkMcp),
  check("npm", checkNpm),
  check("activity", checkActivity),
  check("ca-deno", async () => (await tls).trust),
]);
if (results.find((result) => result?.id === "proxy")?.state === "ok") {
  for (const [id, client] of Object.entries(CLIENTS)) {
    results.push(await check(id as CheckId, () => checkClient(client)));
  }
}
const checks = results.filter((result): result is CheckResult => result !== undefined);

const report: GuestReport = { schema: "sbx.guest-doctor.v1", unix_ms: Date.now(), checks };
if (Deno.args.includes("--json")) console.log(JSON.stringify(report));
else {
  for (const [id, { title }] of Object.entries(CHECKS)) {
    const result = checks.find((result) => result.id === id);
    if (result) console.log(checkLine(result, title));
  }
}
Deno.exit(checks.some(({ state }) => state === "failed") ? 1 : 0);
