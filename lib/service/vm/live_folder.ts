/** A folder of the host to share live: which folders are allowed, and which entries are masked. */
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SbxError } from "../../base/error/mod.ts";
import type { CreateRequest } from "../../client/api/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { type LiveRecord, prepareShare, TOP_NAMES } from "../../machine/live/mod.ts";
import { personGit } from "../../repo/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type { Vm } from "./vm.ts";

/** True if VMs may have folders of the host. */
const SETTING = "vm.live_folders";

/**
 * Examines a folder of the host before it is shared with a VM.
 *
 * @throws {SbxError} `file.not_found`, `file.invalid`; `settings.corp_locked`, `live.off`: the settings
 * forbid it; `live.refused`: files that a guest changes there would run on the host
 */
export async function liveFolder(
  { home, settings }: { home: Home; settings: SettingsStore },
  { dir: path, with_secrets = false }: NonNullable<CreateRequest["live"]>,
): Promise<LiveRecord> {
  if (settings.inForce(SETTING) === false) {
    throw new SbxError("live.off", "VMs may not have folders of this host", {
      hint: `sbx settings explain ${SETTING} says who set it; --from-dir brings a copy in`,
    });
  }
  const dir = await Deno.realPath(path).catch((cause) => {
    throw new SbxError("file.not_found", `"${path}" cannot be read`, { cause, hint: "check the path" });
  });
  if (!path.startsWith("/")) throw new SbxError("file.invalid", `"${path}" is not an absolute path`);
  if (!(await Deno.stat(dir)).isDirectory) throw new SbxError("file.invalid", `"${path}" is not a folder`);
  await requireApart(dir, home);
  if (await ignoresCase(dir)) throw refused(dir, "its file system takes .GIT for .git");
  const git = await personGit(dir);
  const above = git && await git.text(["rev-parse", "--show-toplevel"]);
  if (above !== undefined && above !== dir) {
    throw new SbxError("repo.below", `"${dir}" is a folder of the repository "${above}"`, {
      hint: `share the whole of it: "${above}"`,
    });
  }
  const hooks = git && await hooksFolder(git, dir);
  return {
    dir,
    name: basename(dir).replaceAll(/[^A-Za-z0-9._-]/g, "_").replace(/^[.-]+/, "") || "folder",
    is_repository: git !== undefined,
    with_secrets,
    top: [...new Set([...TOP_NAMES, ...hooks ? [hooks] : []])],
  };
}

/**
 * Makes a VM's folder ready for a boot, in which it may have changed since the last one.
 * @throws {SbxError} as {@linkcode liveFolder}
 */
export async function renewLive(
  sources: { home: Home; settings: SettingsStore },
  { record: { live }, paths }: Pick<Vm, "record" | "paths">,
): Promise<{ live?: LiveRecord }> {
  if (!live) return {};
  const found = await liveFolder(sources, live);
  // A link in its place would lead to another folder.
  if (found.dir !== live.dir) throw refused(live.dir, `it is "${found.dir}" now`);
  const renewed = { ...live, top: found.top };
  await prepareShare(renewed, paths);
  return { live: renewed };
}

/** Refuses a folder that contains or is part of sbx's files, and the home with all of a person's settings. */
async function requireApart(dir: string, home: Home): Promise<void> {
  const person = Deno.env.get("HOME") ?? "/root";
  const source = Deno.build.standalone
    ? Deno.execPath()
    : fileURLToPath(new URL("../../..", import.meta.url));
  const kept = [
    home.dir,
    home.runDir,
    home.assetsDir,
    home.templatesDir,
    home.profilesDir,
    source,
    Deno.execPath(),
  ];
  for (const each of kept) {
    const path = await Deno.realPath(each).catch(() => each);
    if (isAt(path, dir) || isAt(dir, path)) throw refused(dir, `"${path}" is of sbx`);
  }
  const settings = await Deno.realPath(person).catch(() => person);
  if (isAt(settings, dir)) throw refused(dir, `it has all of "${settings}"`);
  if (dir.startsWith(`${settings}/.`)) throw refused(dir, "it is of your programs' settings");
}

function isAt(path: string, dir: string): boolean {
  return path === dir || path.startsWith(dir.endsWith("/") ? dir : `${dir}/`);
}

function refused(dir: string, why: string): SbxError {
  return new SbxError("live.refused", `"${dir}" cannot be shared live: ${why}`, {
    hint: "bring a copy in: --from-dir, or sbx agent AGENT without --live",
  });
}

/** First part of the path of hooks, where a repository has them in its files. */
async function hooksFolder(git: NonNullable<Awaited<ReturnType<typeof personGit>>>, dir: string) {
  // Without the settings that keep git from running anything, one of which is
  // this one; reading it runs nothing.
  const value = await git.with({ GIT_CONFIG_COUNT: "0" }).text(["config", "--type=path", "core.hooksPath"])
    .catch(() => "");
  const path = value === "" ? "" : join(value.startsWith("/") ? "/" : dir, value);
  return path.startsWith(`${dir}/`) ? path.slice(dir.length + 1).split("/")[0] : undefined;
}

/** True if a folder ignores the case of names, tested with one of its entries. */
async function ignoresCase(dir: string): Promise<boolean> {
  for await (const { name } of Deno.readDir(dir)) {
    const other = name === name.toUpperCase() ? name.toLowerCase() : name.toUpperCase();
    if (other === name) continue;
    const [here, there] = await Promise.all(
      [name, other].map((each) => Deno.lstat(join(dir, each)).catch(() => undefined)),
    );
    return there !== undefined && here?.ino === there.ino;
  }
  return false;
}
