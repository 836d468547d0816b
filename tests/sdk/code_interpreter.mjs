/** `@e2b/code-interpreter`, as its package is: runs the cases and prints the name of each that passed. */
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { NotFoundError, Sandbox, TimeoutError } = await import(
  pathToFileURL(require.resolve("@e2b/code-interpreter").replace(/\.js$/, ".mjs"))
);

const sandbox = await Sandbox.create({ timeoutMs: 1_800_000, envs: { GREETING: "hello" } });
const run = (code, options) =>
  sandbox.runCode(code, { timeoutMs: 300_000, requestTimeoutMs: 300_000, ...options });
const textOf = async (code, options) => {
  const ran = await run(code, options);
  assert.equal(ran.error, undefined, JSON.stringify(ran.error));
  return ran.text;
};

function promised() {
  let resolve;
  const promise = new Promise((settle) => resolve = settle);
  return { promise, resolve };
}

const CASES = {
  "runCode: variables stay, the last line is the result": async () => {
    const first = await run("x = 1\nprint('one')\nx += 1\nx");
    assert.deepEqual([first.text, first.logs.stdout, first.executionCount], ["2", ["one\n"], 1]);
    assert.equal(await textOf("import os\nf'{x} {os.environ[\"GREETING\"]} {os.getcwd()}'"), "2 hello /root");
    assert.equal((await run("x;")).results.length, 0);
    assert.equal(await textOf("import asyncio\nawait asyncio.sleep(0.01, x)"), "2");
  },
  "runCode: output comes while the cell runs": async () => {
    const seen = [];
    const { logs } = await run(
      "import os, sys, time\nprint('first')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)\n" +
        "print('to err', file=sys.stderr)\nos.system('echo of a child')\nprint('last')",
      {
        onStdout: async ({ line }) => {
          seen.push(line);
          if (line === "first\n") await sandbox.files.write("/tmp/go", "");
        },
        onStderr: ({ line, error }) => void seen.push([line, error]),
      },
    );
    assert.equal(seen[0], "first\n");
    assert.deepEqual(logs.stdout.join(""), "first\nof a child\nlast\n");
    assert.deepEqual(logs.stderr, ["to err\n"]);
    assert.ok(seen.some((each) => each[0] === "to err\n" && each[1]));
  },
  "results: formats, displayed and main": async () => {
    const seen = [];
    const { results } = await run(
      [
        "class Shown:",
        "  def _repr_html_(self): return '<b>bold</b>'",
        "  def _repr_png_(self): return b'\\x89PNG'",
        "  def _repr_mimebundle_(self, include=None, exclude=None):",
        "    return {'text/plain': 'plain', 'e2b/data': {'a': [1, 2]}, 'application/x-own': {'b': 1}}",
        "display(Shown())",
        "Shown()",
      ].join("\n"),
      { onResult: (result) => void seen.push(result.isMainResult) },
    );
    assert.deepEqual(seen, [false, true]);
    const [displayed, main] = results;
    for (const { text, html, png, data, extra } of [displayed, main]) {
      assert.deepEqual(
        [text, html, png, data],
        ["plain", "<b>bold</b>", png, { a: [1, 2] }],
      );
      assert.equal(Buffer.from(png, "base64").toString("latin1"), "\x89PNG");
      assert.deepEqual(extra, { "application/x-own": { b: 1 } });
    }
    assert.deepEqual(main.formats().sort(), ["application/x-own", "data", "html", "png"]);
  },
  "errors: name, value and the lines of the cell": async () => {
    const errors = [];
    const { error, results } = await run("def broken():\n  return 1 / 0\nbroken()", {
      onError: ({ name }) => void errors.push(name),
    });
    assert.deepEqual([error.name, error.value, results], ["ZeroDivisionError", "division by zero", []]);
    assert.match(error.traceback, /<cell \d+>", line 2, in broken\n +return 1 \/ 0/);
    assert.doesNotMatch(error.traceback, /<sbx>/);
    assert.deepEqual(errors, ["ZeroDivisionError"]);
    assert.equal((await run("x =")).error.name, "SyntaxError");
    assert.equal((await run("exit()")).error.name, "SystemExit");
    assert.equal(
      (await run("input()")).error.name,
      /^(EOF|Value)Error$/.exec((await run("input()")).error.name)[0],
    );
  },
  "envs: of one cell alone; lines of the shell": async () => {
    assert.equal(await textOf("os.environ['ONE']", { envs: { ONE: "it's 1" } }), `"it's 1"`);
    assert.equal(await textOf("str(os.environ.get('ONE'))"), "None");
    const { logs, text } = await run("!echo shell; exit 4\n_exit_code");
    assert.deepEqual([logs.stdout.join(""), text], ["shell\n", "4"]);
  },
  "contexts: made, listed, apart, restarted, removed": async () => {
    const context = await sandbox.createCodeContext({ cwd: "/tmp" });
    assert.deepEqual([context.language, context.cwd], ["python", "/tmp"]);
    assert.equal(await textOf("import os\ny = 5\nos.getcwd()", { context }), "/tmp");
    assert.equal((await run("y")).error.name, "NameError");
    const ids = (await sandbox.listCodeContexts()).map(({ id }) => id);
    assert.equal(ids.length, 2);
    assert.ok(ids.includes(context.id));
    await sandbox.restartCodeContext(context);
    assert.equal((await run("y", { context })).error.name, "NameError");
    await sandbox.removeCodeContext(context.id);
    await assert.rejects(
      run("1", { context }),
      (error) => error instanceof NotFoundError && /no context/.test(error.message),
    );
    await assert.rejects(sandbox.removeCodeContext(context), NotFoundError);
  },
  "cells of a context follow each other; contexts run side by side": async () => {
    const context = await sandbox.createCodeContext();
    const { promise: begun, resolve: begin } = promised();
    const waits = run("print('begun')\nwhile not os.path.exists('/tmp/side'): time.sleep(0.05)\nz = 1", {
      onStdout: begin,
    });
    await begun;
    const after = run("z");
    await run("open('/tmp/side', 'w').close()", { context });
    await waits;
    assert.equal((await after).text, "1");
    await sandbox.removeCodeContext(context);
  },
  "languages: bash, JavaScript and TypeScript keep their state; others are refused with the reason":
    async () => {
      const bash = { language: "bash" };
      await run("V=5; cd /tmp", bash);
      const { logs } = await run("echo $V $E; pwd", { ...bash, envs: { E: "it's" } });
      assert.equal(logs.stdout.join(""), "5 it's\n/tmp\n");
      assert.equal((await run("false", bash)).error.value, "exit code 1");
      const javascript = { language: "javascript" };
      await run("const n = 20; console.log('logged')", javascript);
      assert.equal(await textOf("await Promise.resolve(n + 1)", javascript), "21");
      const thrown = await run("throw new TypeError('no')", javascript);
      assert.deepEqual([thrown.error.name, thrown.error.value], ["TypeError", "no"]);
      assert.equal(await textOf("const m: number = 3; m * 2", { language: "typescript" }), "6");
      await assert.rejects(run("1", { language: "r" }), /404|sbx runs no cells of r; use one of python/);
    },
  "time-out: the cell is interrupted, and its variables stay": async () => {
    await assert.rejects(run("import time\ntime.sleep(5000)", { timeoutMs: 1000 }), TimeoutError);
    assert.equal(await textOf("x"), "2");
    await assert.rejects(run("while (true);", { language: "javascript", timeoutMs: 1000 }), TimeoutError);
    assert.equal(await textOf("n", { language: "javascript" }), "20");
    await assert.rejects(run("sleep 5000", { language: "bash", timeoutMs: 1000 }), TimeoutError);
    assert.equal((await run("echo $V", { language: "bash" })).logs.stdout.join(""), "5\n");
  },
  "a program that ends is an error of its cell, and the next one starts another": async () => {
    const { error } = await run("os._exit(3)");
    assert.deepEqual([error.name, /exit code 3/.test(error.value)], ["KernelDied", true]);
    assert.equal((await run("x")).error.name, "NameError");
    assert.equal(await textOf("1 + 1"), "2");
  },
  "tokens: the one of ports opens the interpreter, and neither files nor programs": async () => {
    const headers = { "E2b-Sandbox-Id": sandbox.sandboxId };
    const at = (path, port, more) =>
      fetch(`${process.env.E2B_SANDBOX_URL}${path}`, {
        headers: { ...headers, "E2b-Sandbox-Port": port, ...more },
      });
    const traffic = { "E2B-Traffic-Access-Token": sandbox.trafficAccessToken };
    assert.equal((await at("/contexts", "49999", traffic)).status, 200);
    assert.equal((await at("/contexts", "49999", {})).status, 401);
    assert.equal((await at("/files?path=/etc/passwd", "49983", traffic)).status, 401);
    const asAccess = { "X-Access-Token": sandbox.trafficAccessToken };
    assert.equal((await at("/files?path=/etc/passwd", "49983", asAccess)).status, 401);
  },
  "under policy: a name that no rule allows is refused in the cell": async () => {
    const { error } = await run(
      "import urllib.request\nurllib.request.urlopen('http://blocked.example/', timeout=60)",
    );
    assert.match(error.name, /^(URLError|HTTPError)$/);
  },
};

const only = process.env.ONLY;
for (const [name, work] of Object.entries(CASES)) {
  if (only && !name.startsWith(only)) continue;
  try {
    await work();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`FAILED ${name}`);
    console.error(name, error);
    process.exitCode = 1;
  }
}
if (!await sandbox.kill()) process.exitCode = 1;
process.exit();
