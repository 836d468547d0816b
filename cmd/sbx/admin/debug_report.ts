/** The debug report: the service's, or, without a service, this program's own. */
import type { DebugReport } from "../../../lib/client/api/mod.ts";
import { type Home, home } from "../../../lib/base/home/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { Client, serviceAnswers } from "../../../lib/client/mod.ts";
import { debugReport, machineRedactor, stateFromDisk } from "../../../lib/support/debug/mod.ts";

/** Longest wait for the service's report, in `ms`: it hashes the image. */
const REPORT_MS = timeLimit(60_000);

/**
 * Fetches the report, or makes it and notes that.
 *
 * @param options.hosts replaces host names and addresses too
 */
export async function fetchReport(
  place: Home = home(Deno.env),
  { hosts = false } = {},
): Promise<DebugReport> {
  const report = await serviceAnswers(place) ? await fetchFromService(place) : undefined;
  if (!report) note("sbx: the service does not answer; this report is made from the files of the home");
  const complete = report ?? await debugReport(place, await stateFromDisk(place));
  return hosts ? (await machineRedactor(place, { hosts })).redactor.value(complete) : complete;
}

async function fetchFromService(place: Home): Promise<DebugReport | undefined> {
  const client = Client.unix(place.serviceSocket);
  try {
    const signal = AbortSignal.timeout(REPORT_MS);
    return await client.json<DebugReport>("GET", "/debug/report", { signal });
  } catch {
    return undefined;
  } finally {
    client.http?.close();
  }
}
