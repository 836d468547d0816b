/** `sbx support-bundle`, and `sbx doctor --bundle`. */
import { resolve } from "node:path";
import type { ProfileList, SessionList } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { type Bundle, collectBundle, writeBundle } from "../../../lib/support/bundle/mod.ts";
import { Client, segment, serviceAnswers } from "../../../lib/client/mod.ts";
import { fetchReport } from "./debug_report.ts";
import { diagnoseHost } from "./host_doctor.ts";

const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Longest wait for one answer of the service, in `ms`. */
const ANSWER_MS = timeLimit(10_000);

/** Options of a bundle. */
export interface BundleRequest {
  /** default: a name with the date, in this folder */
  out?: string;
  /** id of a session, or name of a VM */
  session?: string;
  hosts?: boolean;
}

/** Makes a bundle, lists its content, and writes it. @returns its path and its list */
export async function makeBundle(
  request: BundleRequest,
): Promise<{ path: string; files: Omit<Bundle["files"][number], "bytes">[] }> {
  // Unchecked: this may have to report a home owned by another user.
  const place = home(Deno.env);
  const path = resolve(request.out ?? `sbx-support-${new Date().toISOString().slice(0, 10)}.tar.zst`);
  if (!path.endsWith(".tar.zst")) {
    throw new SbxError("bundle.invalid", `${path} does not end with .tar.zst`, { hint: "name the file so" });
  }
  const client = await serviceAnswers(place) ? Client.unix(place.serviceSocket) : undefined;
  try {
    const session = request.session && await findSession(client, request.session);
    // One after the other: a service busy with one would look unhealthy to the next.
    const report = await fetchReport(place, request);
    const doctor = await diagnoseHost(place);
    const lints = client && await fetchLints(client).catch(() => undefined);
    const bundle = await collectBundle(place, {
      report,
      doctor,
      ...(lints && { lints }),
      ...(session && { session }),
      hosts: request.hosts,
    });
    note("This goes into the bundle, redacted:");
    for (const { path, size } of bundle.files) note(`  ${path} (${formatBytes(size)})`);
    await writeBundle(path, bundle).catch((cause) => {
      if (cause instanceof SbxError) throw cause;
      throw new SbxError("bundle.not_written", `cannot write the bundle to ${path}`, {
        cause,
        hint: "name a file in a folder that you may write to, on a disk with room: --out FILE.tar.zst",
      });
    });
    return { path, files: bundle.files.map(({ bytes: _, ...file }) => file) };
  } finally {
    client?.http?.close();
  }
}

async function findSession(client: Client | undefined, word: string): Promise<string> {
  if (SESSION_ID.test(word)) return word;
  const signal = AbortSignal.timeout(ANSWER_MS);
  const list = await client?.json<SessionList>("GET", "/sessions/list", { signal });
  const id = list?.sessions.find(({ name }) => name === word)?.id;
  if (id !== undefined) return id;
  throw new SbxError("ledger.not_found", `no session is called "${word}"`, {
    hint: client
      ? "sbx sessions lists them"
      : "without a service, give the session's id: a folder of sessions/ or ledgers/",
  });
}

async function fetchLints(client: Client): Promise<Record<string, unknown>> {
  const signal = AbortSignal.timeout(ANSWER_MS);
  const { profiles } = await client.json<ProfileList>("GET", "/profiles/list", { signal });
  const lints = await Promise.all(profiles.map(async ({ id }) => {
    const path = `/profiles/${segment(id, "profile")}/enforcement/rules/list`;
    return [id, (await client.json<{ lints: unknown }>("GET", path, { signal })).lints] as const;
  }));
  return Object.fromEntries(lints);
}
