/** A home that follows a channel of a publisher, served on loopback. */
import { join } from "node:path";
import { type Home, home as findHome } from "../../lib/base/home/mod.ts";
import { silent } from "../../lib/base/progress/mod.ts";
import { corpPlaces, CorpStore } from "../../lib/config/corp/mod.ts";
import { markRelease, serveTree, type TreeServer, Workspace } from "../../lib/publish/mod.ts";
import { formatTrust } from "../../lib/release/mod.ts";
import { Updates } from "../../lib/service/mod.ts";
import { updateFromChannel, updateProgram } from "../../lib/home/mod.ts";
import { loadDefinitions, SettingsStore } from "../../lib/config/settings/mod.ts";
import { ReleaseWorkspace } from "./release_workspace.ts";

const DAY_MS = 86_400_000;
const VARIABLES = ["SBX_RELEASE_CHANNELS_URL", "SBX_RELEASE_TRUST_FILE", "SBX_CORP_CONFIG"];

/** A publisher, its server, and a home that follows it by variables of this process. */
export class Follower implements AsyncDisposable {
  private constructor(
    readonly workspace: ReleaseWorkspace,
    readonly server: TreeServer,
    readonly dir: string,
    readonly updates: Updates,
  ) {}

  /** Users of the machine beside root, in the format of passwd(5), and what root shares with them. */
  get machine() {
    return { shared: join(this.dir, "shared"), users: join(this.dir, "passwd") };
  }

  readonly home = findHome({ get: (name) => name === "SBX_HOME" ? this.dir : undefined });

  /** @param prepare changes the workspace before its release 1.0.0 */
  static async make(prepare: (workspace: ReleaseWorkspace) => void = () => {}): Promise<Follower> {
    const workspace = await ReleaseWorkspace.make(Date.now() - 10 * DAY_MS);
    prepare(workspace);
    await workspace.release("1.0.0");
    await workspace.publish();
    const server = await serveTree(workspace.out, 0);
    const dir = await Deno.makeTempDir();
    const trust = join(dir, "trust.json");
    await Deno.writeTextFile(trust, formatTrust([...(await workspace.keys()).trusted]));
    Deno.env.set("SBX_RELEASE_CHANNELS_URL", server.url);
    Deno.env.set("SBX_RELEASE_TRUST_FILE", trust);
    const home = findHome({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const corp = new CorpStore(home, corpPlaces());
    const settings = await SettingsStore.open({ home, corp, definitions: await loadDefinitions() });
    return new Follower(workspace, server, dir, new Updates({ home, settings, corp }));
  }

  async publish(version: string): Promise<void> {
    await this.workspace.release(version);
    await this.workspace.publish();
  }

  async mark(version: string, status: "deprecated" | "revoked"): Promise<void> {
    await markRelease(await Workspace.open(this.workspace.dir), "stable", version, status);
    await this.workspace.sign();
    await this.workspace.publish();
  }

  install(ids: string[] = [], allowDowngrade = false) {
    return updateFromChannel({ home: this.home, ids, allowDowngrade, progress: silent });
  }

  /** Installs the program of the channel at `path`, or the previous one again. */
  program(
    path: string | undefined,
    options: { allowDowngrade?: boolean; rollback?: boolean; home?: Home } = {},
  ) {
    const choices = { allowDowngrade: false, rollback: false, home: this.home, ...options };
    return updateProgram({
      machine: this.machine,
      progress: silent,
      ...(path !== undefined && { path }),
      ...choices,
    });
  }

  /** State of the profile `code` by the last check. */
  async state(): Promise<string | undefined> {
    const { last_check } = await this.updates.status();
    return last_check?.profiles?.find(({ id }) => id === "code")?.state;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const name of VARIABLES) Deno.env.delete(name);
    await this.server.close();
    await Deno.remove(this.dir, { recursive: true });
    await this.workspace[Symbol.asyncDispose]();
  }
}
