/**
 * Runs calls of sbx and sbx-admin one after another in this process, for tests that make thousands of them:
 *
 *     deno run -A tests/helper/cli_calls.ts CALLS.json
 *
 * CALLS.json is an array of arrays, each a program and its arguments. Prints one JSON line a call: its exit
 * code, and the standard error. A call that has not ended after `LIMIT_MS` has the code -1.
 */
import { main as admin } from "../../cmd/admin/main.ts";
import { main as sbx } from "../../cmd/sbx/main.ts";

const LIMIT_MS = 20_000;
const PROGRAMS: Record<string, (argv: string[]) => Promise<number>> = { "sbx": sbx, "sbx-admin": admin };

if (import.meta.main) {
  const output = Deno.stdout;
  let text = "";
  const take = (bytes: Uint8Array) => {
    text += new TextDecoder().decode(bytes);
    return bytes.length;
  };
  console.error = (...words: unknown[]) => void (text += `${words.join(" ")}\n`);
  console.log = () => {};
  const write = output.write.bind(output);
  Object.assign(Deno.stderr, { writeSync: take, write: (bytes: Uint8Array) => Promise.resolve(take(bytes)) });
  Object.assign(Deno.stdout, { write: (bytes: Uint8Array) => Promise.resolve(bytes.length) });
  // A command must not end the process of the others.
  Deno.exit = (code) => {
    throw new Error(`Deno.exit(${code})`);
  };
  for (const [program, ...argv] of JSON.parse(await Deno.readTextFile(Deno.args[0]))) {
    text = "";
    let timer;
    const late = new Promise<number>((resolve) => timer = setTimeout(() => resolve(-1), LIMIT_MS));
    const code = await Promise.race([PROGRAMS[program](argv), late]).catch((error) => {
      text += `${Deno.inspect(error)}\n`;
      return -2;
    });
    clearTimeout(timer);
    await write(new TextEncoder().encode(`${JSON.stringify({ code, stderr: text })}\n`));
  }
}
