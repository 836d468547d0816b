/** Publishes the workspace of a release as static files for a web server. */
import { dirname, join } from "node:path";
import { asSbxError, ignore, SbxError } from "../base/error/mod.ts";
import { blake3File } from "../base/hash/mod.ts";
import { type ProgressSink, silent } from "../base/progress/mod.ts";
import {
  type ChannelIndex,
  INDEX_ENVELOPE_NAME,
  INDEX_NAME,
  parseIndex,
  rankOf,
  type ReleaseKeys,
  selectable,
  type TreeReport,
  verifyTree,
} from "../release/mod.ts";
import { MANIFEST } from "../release/asset/mod.ts";
import { filesOfReleases } from "../release/attest/mod.ts";
import { FILE_MODE, FOLDER_MODE, Workspace } from "./workspace.ts";

/** What {@linkcode publishTree} did. */
export interface Published {
  dir: string;
  generated_at: string;
  /** files that were not there before */
  added: string[];
  /**
   * files that were there with other bytes: the index, its signature, and the newest manifest of a channel
   */
  replaced: string[];
}

/**
 * Publishes a workspace into a folder that any web server serves. New files come first, the index last, each
 * by a rename: a client sees the old state or the new one. Nothing that is published changes, except for the
 * index, its envelope and `assets/<channel>/manifest.json`.
 *
 * @throws {SbxError} `release.unverified`: the workspace has a problem; `release.rollback`: the folder has a
 * newer state; `release.conflict`: a published file would change; `disk.full`
 */
export async function publishTree(
  workspace: string,
  out: string,
  keys: ReleaseKeys,
  progress: ProgressSink = silent,
): Promise<Published> {
  return await Workspace.change(
    workspace,
    ({ index }) => publishIndex(workspace, index, out, keys, progress),
  );
}

async function publishIndex(
  workspace: string,
  index: ChannelIndex,
  out: string,
  keys: ReleaseKeys,
  progress: ProgressSink,
): Promise<Published> {
  const { report, tree } = await verifyTree(workspace, { keys, progress });
  requireVerified(report);
  await requireForward(out, index);
  const published: Published = { dir: out, generated_at: index.generated_at, added: [], replaced: [] };
  try {
    for (const name of await filesOfReleases(tree!.releases)) {
      await copyFile(workspace, out, name, published, { isFixed: true });
    }
    for (const [channel, { manifests }] of Object.entries(index.channels)) {
      const [newest] = selectable(manifests);
      const name = `assets/${channel}/${MANIFEST}`;
      if (newest && !newest.url.includes(":")) {
        await copyFile(workspace, out, newest.url, published, { name });
      }
    }
    for (const name of [INDEX_ENVELOPE_NAME, INDEX_NAME]) await copyFile(workspace, out, name, published, {});
  } catch (error) {
    throw asSbxError(error, `publishing to ${out}`);
  }
  return published;
}

async function copyFile(
  from: string,
  to: string,
  source: string,
  published: Published,
  { name = source, isFixed = false }: { name?: string; isFixed?: boolean },
): Promise<void> {
  const target = join(to, name);
  const [wanted, present] = await Promise.all(
    [join(from, source), target].map((path) => blake3File(path).catch(() => undefined)),
  );
  // Asset manifests and attestations need not be there.
  if (wanted === undefined) return;
  if (present?.hash === wanted.hash) return;
  if (present && isFixed) {
    throw new SbxError("release.conflict", `${target} is published, and would change`, {
      hint: "published files never change: give the release a new version",
    });
  }
  await Deno.mkdir(dirname(target), { recursive: true, mode: FOLDER_MODE });
  const temporary = join(dirname(target), `.${crypto.randomUUID()}.tmp`);
  try {
    await Deno.copyFile(join(from, source), temporary);
    await Deno.chmod(temporary, FILE_MODE);
    using file = await Deno.open(temporary);
    await file.sync();
    await Deno.rename(temporary, target);
  } catch (error) {
    await Deno.remove(temporary).catch(ignore("the failure of the copy is thrown"));
    throw error;
  }
  (present ? published.replaced : published.added).push(name);
}

function requireVerified({ ok, results, dir }: TreeReport): void {
  if (ok) return;
  const { subject, detail } = results.find((result) => !result.ok)!;
  throw new SbxError("release.unverified", `${dir} cannot be published: ${subject}: ${detail}`, {
    hint:
      `sbx-admin release check ${dir} lists every problem; sbx-admin release sign ${dir} signs the new files`,
  });
}

/** Refuses to replace a published state by an older one: clients would refuse it. */
async function requireForward(out: string, index: ChannelIndex): Promise<void> {
  const bytes = await Deno.readFile(join(out, INDEX_NAME)).catch(() => undefined);
  if (!bytes) return;
  const published = parseIndex(bytes, join(out, INDEX_NAME));
  const refuse = (problem: string) =>
    new SbxError("release.rollback", `${out} has a newer state than the workspace: ${problem}`, {
      hint: "publish from the workspace that signed it; clients refuse what goes back",
    });
  if (Date.parse(index.generated_at) < Date.parse(published.generated_at)) {
    throw refuse(`its index is of ${published.generated_at}, the workspace's of ${index.generated_at}`);
  }
  for (const [channel, { manifests }] of Object.entries(published.channels)) {
    for (const { version, status } of manifests) {
      const record = index.channels[channel]?.manifests.find((each) => each.version === version);
      if (record && rankOf(record.status) < rankOf(status)) {
        throw refuse(
          `release ${version} of channel "${channel}" is ${status} there and ${record.status} here`,
        );
      }
    }
  }
}
