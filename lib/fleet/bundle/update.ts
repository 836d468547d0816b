/**
 * Bundles from the release graph into a home: checked, staged, verified and tried before one takes effect
 * (docs/guides/fleet.md).
 */
import { join } from "node:path";
import { asSbxError, ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { type Home, lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { silent } from "../../base/progress/mod.ts";
import { compareSemVer } from "../../base/semver/mod.ts";
import type { CorpCheck, CorpConfig } from "../../config/corp/mod.ts";
import { displayUrl } from "../../base/download/mod.ts";
import {
  BUNDLE_BYTES_MAX,
  checkChannel,
  type CheckedChannel,
  findKeyFiles,
  INDEX_NAME,
  MANIFEST_BYTES_MAX,
  parseIndexUrl,
  placeOf,
  readReleaseKeys,
  ReleaseMemory,
  resolveReleaseUrl,
} from "../../release/mod.ts";
import { compareProfiles, fetchDocument, installProfile, recordChange } from "../../publish/update/mod.ts";
import {
  type Active,
  applyBundle,
  type BundleStatus,
  CONTENT,
  MANIFEST,
  PUBLISHER_HINT,
  readActive,
  writeStatus,
} from "./apply.ts";
import { bundlePaths } from "./paths.ts";
import { entryOf, openBundle } from "./verify.ts";

/** Longest wait for another program that updates, in `ms`. */
const LOCK_MS = 60_000;

export interface BundleUpdate {
  home: Home;
  /** corp.toml of the machine, without a bundle */
  own: CorpConfig;
  machineId: string;
  /** what corp.toml must pass before it takes effect */
  check: CorpCheck;
  /** a person accepts an older release */
  downgrade?: { by: string };
}

/**
 * Checks the channel of bundles and installs the one for this machine. An older one is installed only if the
 * active one was revoked. The status is always written, also after a failure.
 *
 * @throws {SbxError} `update.source.not_found`, `release.…`, `bundle.…`, `corp.invalid`
 */
export async function updateBundle(options: BundleUpdate): Promise<BundleStatus> {
  const { home, own, machineId } = options;
  const { bundles_url, bundles_channel: channel, labels } = own.file.fleet;
  if (bundles_url === undefined) {
    throw new SbxError("update.source.not_found", `${own.path} names no channel of bundles`, {
      hint: 'an administrator sets [fleet] bundles_url = "https://HOST/channels.json"',
    });
  }
  const { folder, lock: lockPath } = bundlePaths(home);
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  using lock = await Deno.open(lockPath, { create: true, write: true, mode: 0o600 });
  if (!await lockWithin(lock, LOCK_MS)) {
    throw new SbxError("bundle.busy", "another program updates the bundle", { hint: "try again later" });
  }
  const status: BundleStatus = {
    schema: "sbx.fleet-bundle-status.v1",
    at: new Date().toISOString(),
    url: displayUrl(new URL(bundles_url)),
    channel,
    in_force: null,
    offered: null,
    state: "none",
    place: placeOf(machineId, channel),
    labels,
    held: [],
    problem: null,
  };
  try {
    await update(options, bundles_url, status);
  } catch (cause) {
    const { message } = asSbxError(cause, "updating the bundle");
    await writeStatus(home, { ...status, state: "failed", problem: message });
    throw cause;
  }
  await writeStatus(home, status);
  return status;
}

async function update(options: BundleUpdate, bundlesUrl: string, status: BundleStatus): Promise<void> {
  const { home, own, machineId, check, downgrade } = options;
  const { channel, labels } = status;
  // A damaged note of the active bundle is rewritten.
  const noted = await readActive(home).catch(() => undefined);
  const active = noted?.url === bundlesUrl && noted.channel === channel ? noted : undefined;
  status.in_force = active?.version ?? null;
  const url = parseIndexUrl(bundlesUrl);
  const checked = await checkChannel({
    index: url,
    channel,
    keys: await readReleaseKeys(await findKeyFiles({ release: own.file.release, path: own.path })),
    memory: new ReleaseMemory(home),
    fetch: fetchDocument,
    machine: { id: machineId, labels },
    ...(downgrade && { downgrade }),
  }).catch((error) => {
    // A machine outside every stage has no release and keeps its bundle.
    if (error instanceof SbxError && error.code === "release.not_found") {
      status.problem = error.message;
      return undefined;
    }
    throw error;
  });
  if (!checked) {
    status.state = active ? "kept" : "none";
    if (!active) return;
    const { followed } = await new ReleaseMemory(home).read();
    const known = followed.find((each) => each.url === url.href && each.channel === channel);
    if (known?.manifests[active.version]?.status !== "revoked") return;
    status.state = "revoked";
    status.problem =
      `bundle ${active.version} is revoked, and channel "${channel}" has no other for this machine: ` +
      "it stays active until its publisher releases one";
    return;
  }
  const { version } = checked.record;
  status.offered = version;
  const order = active ? compareSemVer(version, active.version) : 1;
  const before = active &&
    checked.index.channels[channel].manifests.find((each) => each.version === active.version);
  // A release that is no longer listed was revoked before: the check refuses any other disappearance.
  const isRollback = order < 0 && (!before || before.status === "revoked" || downgrade !== undefined);
  if (order < 0 && !isRollback) {
    status.state = "kept";
    return;
  }
  const source = { index: url, channel, isCorps: true };
  if (order !== 0) await fetchFiles(home, url, checked);
  const next: Active = {
    schema: "sbx.fleet-bundle-active.v1",
    url: bundlesUrl,
    channel,
    version,
    since: order === 0 ? active!.since : status.at,
  };
  const { config, held } = await applyBundle(home, own, next).catch(async (error) => {
    if (order !== 0) throw error;
    // The active bundle was damaged since: install the same release again.
    await fetchFiles(home, url, checked);
    return await applyBundle(home, own, next);
  });
  status.held = held;
  const problems = await check(config, config.path);
  if (problems.length > 0) {
    throw new SbxError("bundle.refused", problems.join("\n"), { hint: PUBLISHER_HINT });
  }
  if (order !== 0) {
    await recordChange(home, {
      what: "bundle",
      ...(active && { from: active.version }),
      to: version,
      source: status.url,
      ...(isRollback && { downgrade: true }),
    });
  }
  await writeAtomic(bundlePaths(home).active, JSON.stringify(next, null, 2) + "\n");
  status.in_force = version;
  status.state = order === 0 ? "same" : "installed";
  await removeOthers(home, [version, ...(active ? [active.version] : [])]);
  for (const offered of await compareProfiles(home, checked)) {
    const isWanted = offered.state === "new" || offered.state === "newer" ||
      offered.state === "older" && isRollback;
    const entry = checked.manifest.profiles.find(({ id }) => id === offered.id);
    if (!isWanted || !entry) continue;
    await installProfile(entry, offered, { home, source, allowDowngrade: isRollback, progress: silent });
  }
}

/** Fetches the files of a release into a separate folder, unused until all of them are verified. */
async function fetchFiles(home: Home, index: URL, { record, manifest }: CheckedChannel): Promise<void> {
  const folder = bundlePaths(home).version(record.version);
  await ifFound(Deno.remove(folder, { recursive: true }));
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const entry = entryOf(manifest);
  const keep = async (name: string, url: URL, max: number) => {
    const bytes = await fetchDocument(url, max);
    await writeAtomic(join(folder, name), bytes);
    return bytes;
  };
  openBundle(await keep(CONTENT, resolveReleaseUrl(index, entry.url), BUNDLE_BYTES_MAX), entry);
  await keep(MANIFEST, resolveReleaseUrl(index, record.url), MANIFEST_BYTES_MAX);
  await keep(INDEX_NAME, index, BUNDLE_BYTES_MAX);
  await keep(`${INDEX_NAME}.dsse`, new URL(`${index.href}.dsse`), BUNDLE_BYTES_MAX).catch(
    ignore("a publisher without a trust document signs by HMAC alone"),
  );
}

/** Removes folders of versions other than the active and the previous one. */
async function removeOthers(home: Home, kept: readonly string[]): Promise<void> {
  const { folder, version } = bundlePaths(home);
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory && !kept.includes(name)) {
      await Deno.remove(version(name), { recursive: true }).catch(ignore("the next update tries again"));
    }
  }
}
