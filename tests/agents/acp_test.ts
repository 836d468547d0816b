/** Published agents in VMs, driven by an editor that speaks the Agent Client Protocol: `sbx acp`. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Raw } from "../helper/acp.ts";
import { Editor } from "../helper/acp_editor.ts";
import { Sbx } from "../helper/sbx.ts";
import { TestUpstreams } from "../helper/upstream.ts";
import { ANTHROPIC, GOOGLE, HOSTS, makeRepository, OPENAI, TASK } from "./agents.ts";
import { answerAsProvider, DONE } from "./provider.ts";

const AGENTS = [
  { id: "claude", ...ANTHROPIC },
  { id: "codex", ...OPENAI },
  { id: "opencode", ...ANTHROPIC },
  { id: "gemini", ...GOOGLE },
];

for (const { id, provider, secret } of AGENTS) {
  Deno.test(`${id} mends a program for an editor, by sbx acp`, async () => {
    const dir = await Deno.realPath(await Deno.makeTempDir());
    const world = await TestUpstreams.make(HOSTS, answerAsProvider);
    const sbx = await Sbx.make({ spare: false });
    try {
      const repository = await makeRepository(dir);
      await sbx.ok("start");
      await sbx.api("PATCH", "/settings/edit", {
        "network.upstream_overrides": world.overrides,
        "network.extra_ca_file": world.caFile,
      });
      await sbx.api("POST", "/credentials/add", { provider, secret });
      const asked: string[] = [];
      await using editor = new Editor(sbx, repository, [id], {
        "session/request_permission": ({ toolCall, options }) => {
          asked.push(toolCall.title);
          const { optionId } = options.find(({ kind }: Raw) => kind === "allow_once");
          return { outcome: { outcome: "selected", optionId } };
        },
      });
      await editor.open(repository);
      const turn = await editor.turn(TASK);
      const seen = JSON.stringify(editor.seen, null, 1);
      assertStringIncludes(turn.text, DONE, seen);
      assert(turn.calls.some(({ status }) => status === "completed"), seen);
      assertEquals(asked.filter((title) => title.startsWith("sbx asks")), [], "its hosts are all known");

      const [{ name }] = JSON.parse(await sbx.ok("list", "--json")).vms;
      const log = await sbx.ok("exec", name, "--", "git", "-C", "/root/calc", "log", "--format=%s");
      assertEquals(log.split("\n")[0], "Add, do not subtract", seen);
      const got = world.received.filter(({ headers }) =>
        Object.values(headers).some((text) => text.includes(secret))
      );
      assert(got.length >= 2, "the provider got the key");
      assert(!seen.includes(secret), "the editor never got it");
      const second = await editor.turn("Now rest.");
      assertStringIncludes(second.text, DONE);
      const [body] = world.received.map((each) => each.body).filter((each) => each.includes("Now rest."));
      assertStringIncludes(body, TASK, "it is the same conversation");
    } finally {
      await sbx.dispose();
      await world.close();
      await Deno.remove(dir, { recursive: true });
    }
  });
}
