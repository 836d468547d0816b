/**
 * Program of the guest that runs cells of JavaScript and TypeScript, as Node's own
 * prompt runs them: lines and messages as of the kernel of Python.
 */

/**
 * Reads its text as the first line of standard input. Its messages go to
 * descriptor 3: the output of a cell's programs is no message.
 */
export const NODE_STARTER = [
  "/bin/sh",
  "-c",
  `exec 3>&1 1>&2; exec node --no-warnings -e "$1"`,
  "sh",
  `const lines=require("readline").createInterface({input:process.stdin});lines.once("line",(text)=>new Function("require","lines",JSON.parse(text))(require,lines))`,
];

export const NODE_PROGRAM = String.raw`
const fs = require("node:fs");
const repl = require("node:repl");
const util = require("node:util");
const { PassThrough } = require("node:stream");
const { stripTypeScriptTypes } = require("node:module");

function send(type, fields = {}) {
  const bytes = Buffer.from(JSON.stringify({ type, ...fields }) + "\n");
  for (let at = 0; at < bytes.length;) {
    try {
      at += fs.writeSync(3, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}
for (const name of ["stdout", "stderr"]) {
  process[name].write = (chunk, encoding, done) => {
    send(name, { text: typeof chunk === "string" ? chunk : Buffer.from(chunk).toString() });
    (typeof encoding === "function" ? encoding : done)?.();
    return true;
  };
}
const MIMES = {
  "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
  "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
  "application/json": "json", "application/javascript": "javascript",
};
function formats(value) {
  const found = {};
  const bundle = value?.[Symbol.for("Jupyter.display")]?.();
  for (const [mime, content] of Object.entries(bundle ?? {})) found[MIMES[mime] ?? mime] = content;
  found.text ??= typeof value === "string" ? value : util.inspect(value);
  return found;
}
globalThis.display = (value) => send("result", { is_main_result: false, ...formats(value) });
const server = repl.start({
  prompt: "", input: new PassThrough(), output: new PassThrough().resume(), terminal: false, useGlobal: true,
  breakEvalOnSigint: true,
});
// Errors of the cell that runs; a callback of an earlier one must not end the kernel.
let fail;
function failed(error) {
  if (fail) fail(error);
  else send("stderr", { text: util.inspect(error) + "\n" });
}
server._domain?.on("error", failed);
process.on("uncaughtException", failed);
process.on("unhandledRejection", failed);

function evaluate(code, count) {
  return new Promise((resolve, reject) => {
    fail = reject;
    server.eval(code + "\n", server.context, "cell " + count, (error, value) => {
      if (error) reject(error.err ?? error);
      else resolve(value);
    });
  }).finally(() => fail = undefined);
}
async function run({ code, language, env = {} }, count) {
  const before = Object.keys(env).map((name) => [name, process.env[name]]);
  Object.assign(process.env, env);
  try {
    const value = await evaluate(language === "typescript" ? stripTypeScriptTypes(code) : code, count);
    if (value !== undefined) send("result", { is_main_result: true, ...formats(value) });
  } catch (error) {
    const isError = util.types.isNativeError(error);
    send("error", {
      name: isError ? error.name : "Error",
      value: isError ? error.message : util.inspect(error),
      traceback: isError ? String(error.stack) : util.inspect(error),
    });
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
  send("number_of_executions", { execution_count: count });
  send("end_of_execution");
}
send("ready", { group: process.pid });
let count = 0;
let last = Promise.resolve();
lines.on("line", (line) => {
  last = last.then(() => run(JSON.parse(line), ++count));
});
lines.on("close", () => process.exit());
`;
