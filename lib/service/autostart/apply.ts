import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { desktopEntry, launchAgent, MARK, type Started, systemdUnit } from "./form.ts";

/** Longest file that is looked at for the mark, in `bytes`. */
const OWN_FILE_MAX = 64 * 1024;

/** The system's place for programs started at login. */
export interface AutostartPlace {
  kind: "systemd" | "xdg" | "launchd";
  /** file to write */
  path: string;
  /** link to it for a systemd user manager, as made by `systemctl --user enable` */
  link?: string;
  /** the same service enabled by the person or the package */
  other?: string;
}

export interface AutostartOptions {
  os: typeof Deno.build.os;
  env: { get(name: string): string | undefined };
  /** home of sbx; a home other than the default has a file of its own */
  home: string;
  /** whether systemd runs this machine */
  hasSystemd: boolean;
}

/** The place for a home; undefined without a home folder of the person. */
export function autostartPlace({ os, env, home, hasSystemd }: AutostartOptions): AutostartPlace | undefined {
  const person = env.get("HOME");
  if (!person) return undefined;
  const isDefault = home === join(person, ".sbx");
  const suffix = isDefault ? "" : `-${createHash("sha256").update(home).digest("hex").slice(0, 8)}`;
  if (os === "darwin") {
    return { kind: "launchd", path: join(person, "Library/LaunchAgents", `sbx.service${suffix}.plist`) };
  }
  const named = env.get("XDG_CONFIG_HOME");
  const config = named?.startsWith("/") ? named : join(person, ".config");
  if (!hasSystemd) return { kind: "xdg", path: join(config, "autostart", `sbx-service${suffix}.desktop`) };
  const units = join(config, "systemd/user"), wants = join(units, "default.target.wants");
  const unit = `sbx-at-login${suffix}.service`;
  return {
    kind: "systemd",
    path: join(units, unit),
    link: join(wants, unit),
    ...isDefault && { other: join(wants, "sbx-service.service") },
  };
}

/**
 * Makes logins start the service, or not. Touches only files that sbx has written.
 *
 * @returns whether it changed a file
 * @throws {SbxError} `autostart.failed`; `autostart.conflict`: a file of that name was not written by sbx
 */
export async function applyAutostart(
  place: AutostartPlace,
  isOn: boolean,
  started: Started,
): Promise<boolean> {
  try {
    return isOn ? await enable(place, started) : await disable(place);
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    const reason = cause instanceof Deno.errors.PermissionDenied
      ? "permission denied"
      : "it cannot be written";
    throw new SbxError("autostart.failed", `start at login: ${place.path}: ${reason}`, {
      cause,
      hint: "make its folder writable, or set app.start_service_at_login to false",
    });
  }
}

async function enable(place: AutostartPlace, started: Started): Promise<boolean> {
  if (place.other !== undefined && await exists(place.other)) return await disable(place);
  const words = [started.program, ...Object.entries(started.env).flat()];
  if (words.some((word) => /[\n\r\0]/.test(word))) {
    throw new SbxError("autostart.failed", "start at login: a path of sbx has a line break", {
      hint: "move sbx or its home to a path without",
    });
  }
  const text = place.kind === "systemd"
    ? systemdUnit(started)
    : place.kind === "xdg"
    ? desktopEntry(started)
    : launchAgent(place.path.replace(/^.*\/|\.plist$/g, ""), started);
  const before = await ownText(place);
  if (before !== text) {
    await Deno.mkdir(dirname(place.path), { recursive: true });
    await writeAtomic(place.path, text, 0o644);
  }
  const hasLink = place.link === undefined || await pointsTo(place.link, place.path);
  if (!hasLink) {
    await Deno.mkdir(dirname(place.link!), { recursive: true });
    await Deno.remove(place.link!).catch(() => {});
    await Deno.symlink(place.path, place.link!);
  }
  return before !== text || !hasLink;
}

async function disable(place: AutostartPlace): Promise<boolean> {
  if (await ownText(place, false) === undefined) return false;
  if (place.link !== undefined && await pointsTo(place.link, place.path)) await Deno.remove(place.link);
  await Deno.remove(place.path);
  return true;
}

/** Text of the file that sbx wrote; undefined without one. @throws {SbxError} `autostart.conflict`, where `isNeeded` */
async function ownText({ path }: AutostartPlace, isNeeded = true): Promise<string | undefined> {
  const info = await Deno.lstat(path).catch(ignoreMissing);
  if (info === undefined) return undefined;
  const text = info.isFile && info.size <= OWN_FILE_MAX ? await Deno.readTextFile(path) : "";
  if (text.includes(MARK)) return text;
  if (!isNeeded) return undefined;
  throw new SbxError("autostart.conflict", `start at login: ${path} was not written by sbx`, {
    hint: "move it away, or set app.start_service_at_login to false",
  });
}

async function pointsTo(link: string, path: string): Promise<boolean> {
  return await Deno.readLink(link).then((target) => target === path, () => false);
}

async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

function ignoreMissing(error: unknown): undefined {
  if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
  throw error;
}
