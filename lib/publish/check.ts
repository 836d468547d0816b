import { type ProgressSink, silent } from "../base/progress/mod.ts";
import {
  nameOfRelease,
  type ReleaseKeys,
  type TreeReport,
  type TreeResult,
  type VerifiedTree,
  verifyTree,
} from "../release/mod.ts";
import { isDraft } from "./sign.ts";
import { UNSIGNED, Workspace } from "./workspace.ts";

/** Checks a workspace before it is published: everything that clients verify, and more that they cannot. */
export async function checkWorkspace(
  dir: string,
  keys: ReleaseKeys,
  progress: ProgressSink = silent,
): Promise<TreeReport> {
  const unsigned = await findUnsigned(await Workspace.open(dir));
  const { report } = await verifyTree(dir, { keys, checks: [oneDocumentEach], progress });
  // A draft's only problem to report is "not signed".
  const said = new Set(unsigned.flatMap(({ subject, record }) => [subject, record]));
  const results = [
    ...unsigned.map(({ record: _, ...result }) => result),
    ...report.results.filter(({ subject }) => !said.has(subject)),
  ];
  return { ...report, results, ok: results.every(({ ok }) => ok) };
}

/** @returns results with the name of their record */
async function findUnsigned(workspace: Workspace): Promise<(TreeResult & { record: string })[]> {
  const results: (TreeResult & { record: string })[] = [];
  for (const [channel, { manifests }] of Object.entries(workspace.index.channels)) {
    for (const record of manifests) {
      // One that cannot be read is reported with the reason.
      const draft = await workspace.readManifest(record).then(
        ({ manifest }) => isDraft(manifest),
        () => false,
      );
      const isUnsigned = draft || record.digest.hmac === UNSIGNED;
      if (!isUnsigned) continue;
      results.push({
        check: "manifest",
        subject: record.url,
        record: nameOfRelease(record.version, channel),
        ok: false,
        detail: "not signed: sbx-admin release sign",
      });
    }
  }
  return results;
}

/** A revision of a profile is one document in all releases of a channel. */
async function* oneDocumentEach({ releases }: VerifiedTree): AsyncGenerator<TreeResult> {
  const documents = new Map<string, string>();
  for (const { channel, manifest: { profiles, version } } of releases) {
    for (const { id, revision, blake3 } of profiles) {
      const key = `${channel} ${id} ${revision}`;
      const before = documents.get(key);
      documents.set(key, before ?? blake3);
      if (before === undefined || before === blake3) continue;
      yield {
        check: "revision",
        subject: `profile ${id} ${revision} of ${channel} ${version}`,
        ok: false,
        detail: "another release has this revision with another document: give it a new revision",
      };
    }
  }
}
