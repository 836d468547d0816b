/**
 * The home of the desktop test: a site, rules that ask, a corp.toml with a lock, and
 * strings that want to be markup.
 */
import { join } from "node:path";
import { DesktopBrowser } from "../helper/browser.ts";
import { GitServer } from "../helper/git.ts";
import { Sbx } from "../helper/sbx.ts";

/** Runs where it is drawn as HTML. */
export const MARKUP = `<img src=x onerror="globalThis.ran=1"><script>globalThis.ran=1</script>`;

/** Answer of a model. */
const MESSAGE = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5",
  content: [{ type: "text", text: MARKUP }],
  stop_reason: "end_turn",
  usage: { input_tokens: 1000, output_tokens: 200 },
};

const CORP = `
[settings."vm.resources.scratch_disk_size_gb"]
value = 2

[corp.rules.no-leak]
action = "block"
match = 'http.request.host == "leak.example"'
`;

const RULES = `
[profiles.rules.ask-site]
action = "ask"
match = 'http.request.host == "asked.example" && http.request.path != "/free"'
reason = ${JSON.stringify(`a person decides ${MARKUP}`)}
`;

export class DesktopWorld {
  private constructor(
    readonly sbx: Sbx,
    readonly desktop: DesktopBrowser,
    readonly site: Deno.HttpServer<Deno.NetAddr>,
    readonly repository: GitServer,
    readonly folder: string,
  ) {}

  static async make(): Promise<DesktopWorld> {
    const site = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      (request) =>
        new URL(request.url).pathname === "/v1/messages"
          ? Response.json(MESSAGE)
          : new Response(MARKUP, { headers: { "content-type": "text/html", "x-hostile": MARKUP } }),
    );
    const repository = await GitServer.open();
    const folder = await Deno.makeTempDir();
    await Deno.writeTextFile(join(folder, "corp.toml"), CORP);
    const sbx = await Sbx.make({ spare: false, env: { SBX_CORP_CONFIG: join(folder, "corp.toml") } });
    await sbx.ok("profile", "copy", "code", "mine");
    const profile = join(sbx.home, "profiles/mine/profile.toml");
    await Deno.writeTextFile(profile, await Deno.readTextFile(profile) + RULES);
    await sbx.ok(
      "settings",
      "set",
      "network.upstream_overrides",
      [
        `asked.example=127.0.0.1:${site.addr.port}`,
        `api.anthropic.com=127.0.0.1:${site.addr.port}`,
        `git.example=127.0.0.1:${repository.port}`,
      ].join(),
    );
    return new DesktopWorld(sbx, await DesktopBrowser.launch(), site, repository, folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.desktop.browser.close();
    await this.sbx.dispose();
    await this.site.shutdown();
    await this.repository[Symbol.asyncDispose]();
    await Deno.remove(this.folder, { recursive: true });
  }
}
