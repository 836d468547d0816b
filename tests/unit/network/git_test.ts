/** Git and policy: asks name refs, and a refusal of each step is one that git's user reads. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { git, GIT_HOST, gitOk, withGitGuest } from "../../helper/git.ts";
import { eventually } from "../../helper/sbx.ts";

/** A rule on git. */
const rule = (action: string, match: string) =>
  `[profiles.rules.git]\nname = "git"\naction = "${action}"\nreason = "not today"\nmatch = '''${match}'''\n`;

Deno.test("an ask about a push names its refs, and its answer covers these refs only", () =>
  withGitGuest(rule("ask", "http.request.git.updates.size() > 0"), async ({ server, net }) => {
    const answer = async (decision: "allow" | "deny", scope: "once" | "session") => {
      await eventually("it is asked", () => net.gate.asks.pending().length === 1);
      const [ask] = net.gate.asks.pending();
      net.gate.asks.resolve(ask.ask_id, { decision, scope });
      return ask;
    };
    const first = git(server.work, ["push", "origin", "HEAD:dev"]);
    const { subject, covers } = await answer("allow", "session");
    assertStringIncludes(subject, "/repo.git/git-receive-pack (update refs/heads/dev)");
    assertStringIncludes(covers!, "/git-receive-pack, which does update refs/heads/dev, with any query");
    assertEquals((await first).code, 0);
    await server.commit("third");
    await gitOk(server.work, "push", "origin", "HEAD:dev");
    const second = git(server.work, ["push", "origin", "HEAD:dev", "HEAD:refs/heads/topic"]);
    assertStringIncludes((await answer("deny", "once")).subject, "create refs/heads/topic");
    assertStringIncludes((await second).text, "remote: blocked by policy: not today");
    const { decision } = net.gate.entries.findLast(({ decision }) => decision?.decision === "block")!;
    assertStringIncludes(JSON.stringify(decision!.matched_fields), "refs/heads/topic");
  }));

Deno.test("a refused list, fetch and clone say why", async () => {
  const steps: [string, string, string[]][] = [
    ["push", 'http.request.git.service == "git-receive-pack"', ["push", "origin", "HEAD:dev"]],
    ["list", 'http.request.git.service == "git-upload-pack"', ["fetch", "origin"]],
    ["fetch", 'http.request.path.endsWith("/git-upload-pack")', ["fetch", "origin"]],
    ["fetch v0", 'http.request.path.endsWith("/git-upload-pack")', [
      "-c",
      "protocol.version=0",
      "fetch",
      "origin",
    ]],
    ["push v1", "http.request.git.updates.size() > 0", [
      "-c",
      "protocol.version=1",
      "push",
      "origin",
      "HEAD:dev",
    ]],
  ];
  for (const [step, match, args] of steps) {
    await withGitGuest(rule("block", match), async ({ server, net }) => {
      await gitOk(`${server.dir}/repo.git`, "branch", "new", "dev");
      await gitOk(`${server.dir}/repo.git`, "update-ref", "refs/heads/new", await sideCommit(server.dir));
      const { code, text } = await git(server.work, args);
      assertEquals([code > 0, step], [true, step]);
      assertStringIncludes(text, 'blocked by policy: not today (rule "git"); ', step);
      assertEquals(net.gate.entries.at(-1)!.decision?.decision, "block");
    });
  }
});

/** Makes a commit that the clone lacks. */
function sideCommit(dir: string): Promise<string> {
  return gitOk(`${dir}/repo.git`, "commit-tree", "dev^{tree}", "-m", "side");
}

Deno.test("a refused push without git's content type gets a status", () =>
  withGitGuest(rule("block", "has(http.request.git)"), async ({ net, port }) => {
    const client = await net.client(port);
    const head = `POST /repo.git/git-receive-pack HTTP/1.1\r\nHost: ${GIT_HOST}:${port}\r\n`;
    const { status, headers } = await client.ask(`${head}content-length: 4\r\n\r\n0000`);
    assertEquals([status, headers.get("content-type")], [403, "application/json"]);
    client.close();
  }));
