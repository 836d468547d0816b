/** The setting `app.start_service_at_login`: keeps the file by which logins start this service as the setting says. */
import { applyAutostart, autostartPlace } from "./autostart/mod.ts";
import { asSbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { homeVariables, machineTrust, siblingProgram } from "../base/spawn/mod.ts";
import type { SettingsStore } from "../config/settings/mod.ts";

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
