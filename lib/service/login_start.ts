/**
 * Starting the service at login (`app.start_service_at_login`): a file in the system's folder of programs
 * that a session starts (docs/design/contracts/03-settings.md §3).
 */
import { asSbxError, ifFound, SbxError } from "../base/error/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { homeVariables, machineTrust, siblingProgram } from "../base/spawn/mod.ts";
import type { SettingsStore } from "../config/settings/mod.ts";
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";

export class LoginStart {
  readonly #home: Home;
  readonly #settings: SettingsStore;
  #problem?: string;
  /** changes happen one after the other */
  #last: Promise<void> = Promise.resolve();

  constructor(home: Home, settings: SettingsStore) {
    this.#home = home;
    this.#settings = settings;
  }

  /** Reasons why the setting is not active. */
  problems(): string[] {
    return this.#problem === undefined ? [] : [this.#problem];
  }

  /** Brings the file in line with the setting. Never throws: a failure is an issue. */
  apply(): Promise<void> {
    return this.#last = this.#last.then(async () => {
      try {
        this.#problem = undefined;
        await this.#write();
      } catch (error) {
        const { message } = asSbxError(error, "start at login");
        this.#problem = message;
        log.warn(message);
      }
    });
  }

  async #write(): Promise<void> {
    const isOn = this.#settings.resolved.byId.get("app.start_service_at_login")?.effective_value === true;
    const place = autostartPlace({
      os: Deno.build.os,
      env: Deno.env,
      home: this.#home.dir,
      hasSystemd: await Deno.stat("/run/systemd/system").then(({ isDirectory }) => isDirectory, () => false),
    });
    const program = await siblingProgram("sbx-service");
    if (place === undefined || program === undefined) {
      const what = place === undefined ? "HOME is not set" : "the program sbx-service is missing beside sbx";
      this.#problem = isOn ? `start at login: ${what}` : undefined;
      return;
    }
    const env = { ...homeVariables(), ...machineTrust() };
    if (await applyAutostart(place, isOn, { program, env })) {
      log.info(`start at login: ${isOn ? "wrote" : "removed"} ${place.path}`);
    }
  }
}

/**
 * Removes the file that starts the service of a home at login, which goes.
 * @throws {SbxError} `autostart.failed`
 */
export async function removeLoginStart(home: Pick<Home, "dir">): Promise<void> {
  const place = autostartPlace({
    os: Deno.build.os,
    env: Deno.env,
    home: home.dir,
    hasSystemd: await Deno.stat("/run/systemd/system").then(({ isDirectory }) => isDirectory, () => false),
  });
  if (place) await applyAutostart(place, false, { program: "", env: {} });
}

/** Longest file that is looked at for the mark, in `bytes`. */
const OWN_FILE_MAX = 64 * 1024;

/** The system's place for programs started at login. */
interface AutostartPlace {
  kind: "systemd" | "xdg" | "launchd";
  /** file to write */
  path: string;
  /** link to it for a systemd user manager, as made by `systemctl --user enable` */
  link?: string;
  /** the same service enabled by the person or the package */
  other?: string;
}

interface AutostartOptions {
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
    await ifFound(Deno.remove(place.link!));
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

/**
 * Text of the file that sbx wrote; undefined without one.
 * @throws {SbxError} `autostart.conflict`, where `isNeeded`
 */
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

/** A program with its environment. */
interface Started {
  program: string;
  env: Record<string, string>;
}

/** The line by which sbx knows its own files. */
const MARK = "Written by sbx for the setting app.start_service_at_login; false removes it.";

/** Unit of a systemd user manager. VMs outlive the service: a restart finds them again. */
function systemdUnit({ program, env }: Started): string {
  const quoted = (text: string) => `"${text.replace(/["\\]/g, "\\$&").replaceAll("%", "%%")}"`;
  return [
    `# ${MARK}`,
    "[Unit]",
    "Description=sbx, virtual machines for agents",
    "",
    "[Service]",
    ...Object.entries(env).map(([name, value]) => `Environment=${quoted(`${name}=${value}`)}`),
    `ExecStart=${quoted(program).replaceAll("$", "$$$$")}`,
    "KillMode=process",
    "Restart=on-failure",
    "UMask=0077",
    "",
    "[Install]",
    "WantedBy=default.target",
    "",
  ].join("\n");
}

/**
 * Entry of a desktop's autostart folder. Its command line is quoted twice: as an
 * argument, and as a string of the file.
 */
function desktopEntry({ program, env }: Started): string {
  const quoted = (text: string) =>
    `"${text.replace(/["`$\\]/g, "\\$&").replaceAll("%", "%%")}"`.replaceAll("\\", "\\\\");
  const words = ["env", ...Object.entries(env).map(([name, value]) => `${name}=${value}`), program];
  return [
    `# ${MARK}`,
    "[Desktop Entry]",
    "Type=Application",
    "Name=sbx",
    "Comment=Starts the service of sbx",
    `Exec=${words.map(quoted).join(" ")}`,
    "NoDisplay=true",
    "Terminal=false",
    "",
  ].join("\n");
}

/** Agent of launchd. */
function launchAgent(label: string, { program, env }: Started): string {
  const escaped = (text: string) =>
    text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const string = (text: string) => `<string>${escaped(text)}</string>`;
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ${MARK} -->
<plist version="1.0">
<dict>
  <key>Label</key>
  ${string(label)}
  <key>ProgramArguments</key>
  <array>
    ${string(program)}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
${
    Object.entries(env).map(([name, value]) => `    <key>${escaped(name)}</key>\n    ${string(value)}\n`)
      .join("")
  }  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>AbandonProcessGroup</key>
  <true/>
</dict>
</plist>
`;
}
