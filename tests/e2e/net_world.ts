/**
 * The internet of the network test: upstreams, a git repository, a model, and the
 * rules and detections over them.
 */
import { assert } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { TestUpstreams } from "../helper/upstream.ts";

/** Secret in the store of the host. */
export const SECRET = "sk-ant-api03-e2eSECRETe2eSECRETe2eSECRET0123456789";
/** Part of the secret that no guest, record or log may contain. */
export const SHOWN = SECRET.slice(8);

/** Rules of the profile. */
export const RULES = `
[profiles.rules.no-blocked]
action = "block"
match = 'dns.request.qname == "blocked.example"'
reason = "nobody goes there"

[profiles.rules.no-post]
action = "block"
match = 'http.request.host == "site.example" && http.request.method == "DELETE"'

[profiles.rules.strip]
action = "rewrite"
match = 'http.request.host == "site.example"'
rewrite = [{ op = "strip_header", path = "x-tracking" }]

[profiles.rules.no-big-model]
action = "block"
match = 'model.request.model == "claude-forbidden"'
`;

/** Detection pack with one rule. */
export const PACK = `
schema: sbx.detection-pack.v1
id: e2e.watch
version: "1"
status: active
owner: user
description: One site is watched.
field_mapping:
  http:
    Host: http.request.host
    Path: http.request.path
sources:
  - id: site-visit
    type: sigma
    format: yaml
    content: |
      title: The site was visited
      logsource: { product: sbx, category: http }
      detection:
        selection:
          Host: site.example
          Path: [/watched, /curl, /python]
        condition: selection
      level: high
findings: { default_severity: medium, default_confidence: high, tags: [] }
`;

/** Server-sent events of one model call. */
const STREAM = [
  `event: message_start\ndata: {"type":"message_start","message":{"model":"claude-sonnet-4-5","usage":{"input_tokens":11,"output_tokens":1}}}\n\n`,
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}\n\n`,
  `event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}\n\n`,
  `event: message_stop\ndata: {"type":"message_stop"}\n\n`,
];

/** Creates a bare git repository with one commit in `folder`. @returns its path */
async function makeRepository(folder: string): Promise<string> {
  const git = async (...args: string[]) => {
    const env = {
      GIT_AUTHOR_NAME: "t",
      GIT_AUTHOR_EMAIL: "t@t",
      GIT_COMMITTER_NAME: "t",
      GIT_COMMITTER_EMAIL: "t@t",
    };
    const { success } = await runChild("git", {
      args,
      cwd: folder,
      env,
    });
    assert(success, `git ${args.join(" ")}`);
  };
  await git("init", "-q", "work");
  await Deno.writeTextFile(join(folder, "work/README"), "from git\n");
  await git("-C", "work", "add", ".");
  await git("-C", "work", "commit", "-qm", "one");
  await git("clone", "-q", "--bare", "work", "repo.git");
  await git("-C", "repo.git", "update-server-info");
  return join(folder, "repo.git");
}

/** Starts a server of models on this machine, with the form of Ollama's answers. */
export function startOllama(): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { model } = await request.json();
    const message = { role: "assistant", content: `at ${request.headers.get("host")}` };
    return Response.json({
      model,
      message,
      done: true,
      done_reason: "stop",
      prompt_eval_count: 5,
      eval_count: 3,
    });
  });
}

/** Starts the upstreams; `folder` receives the git repository that one of them serves. */
export async function makeUpstreams(folder: string) {
  const repository = await makeRepository(folder);
  return await TestUpstreams.make(
    ["site.example", "git.example", "api.anthropic.com", "api.openai.com", "evil.example"],
    async (request, body) => {
      const { pathname, hostname } = new URL(request.url);
      if (pathname.startsWith("/repo.git/")) {
        const file = await Deno.readFile(join(repository, pathname.slice("/repo.git".length))).catch(() =>
          null
        );
        return new Response(file, { status: file ? 200 : 404 });
      }
      if (pathname === "/v1/messages" && JSON.parse(body || "{}").stream) {
        return new Response(STREAM.join(""), { headers: { "content-type": "text/event-stream" } });
      }
      if (pathname === "/redirect") return Response.redirect("https://evil.example/caught", 302);
      if (pathname === "/slow") await new Promise((resolve) => setTimeout(resolve, 30_000));
      return Response.json({ hello: hostname, path: pathname, key: request.headers.get("x-api-key") });
    },
  );
}
