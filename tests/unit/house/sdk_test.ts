/**
 * The SDKs stand alone: they load their own files and the standard library of their language,
 * and promise what the API does.
 */
import { assert, assertEquals } from "@std/assert";
import { API_VERSION } from "../../../lib/base/version/mod.ts";
import { STABLE_ROUTES } from "../../../lib/client/api/stable.ts";
import { pythonTypes } from "../../../scripts/sdk_types.ts";
import { filesBelow, fromRoot } from "../../helper/repo.ts";

/** A parameter of a route in OpenAPI. */
interface Parameter {
  name: string;
  description?: string;
  required?: boolean;
}

/** Modules of Python's standard library that the SDK loads. */
const PYTHON_MODULES =
  "__future__ asyncio atexit base64 collections concurrent.futures dataclasses errno hashlib http.client inspect json os re shlex " +
  "shutil socket ssl struct subprocess tempfile threading time typing urllib.parse uuid";

Deno.test("the TypeScript SDK imports its own files and Node's modules", async () => {
  const files = await filesBelow("sdk/typescript/src", /\.ts$/);
  assert(files.length > 10);
  for (const path of files) {
    for (const [, specifier] of (await read(path)).matchAll(/(?:from|import\() ?"([^"]+)"/g)) {
      assert(/^(node:|\.\.?\/)/.test(specifier) && !specifier.startsWith("../.."), `${path}: ${specifier}`);
    }
  }
});

Deno.test("the Python SDK imports its own files and the standard library", async () => {
  const known = new Set(PYTHON_MODULES.split(" "));
  const files = await filesBelow("sdk/python/src", /\.py$/);
  assert(files.length > 8);
  for (const path of files) {
    for (const [, from, name] of (await read(path)).matchAll(/^\s*(?:from (\S+) import|import (\S+))/gm)) {
      const module = from ?? name;
      assert(module.startsWith(".") || known.has(module), `${path}: ${module}`);
    }
  }
});

// tests/sdk compares the whole file, with generators that only make test-sdk installs.
Deno.test("the SDKs' types are of this API: every parameter of TypeScript's, every line of Python's (make sdk)", async () => {
  const api = JSON.parse(await read("schemas/api.v1.json"));
  assertEquals(await read("sdk/python/src/sbx/types.py") === pythonTypes(api.components.schemas), true);
  const types = await read("sdk/typescript/src/generated/api.ts");
  const parameters = Object.values<Record<string, { parameters?: Parameter[] }>>(api.paths)
    .flatMap((path) => Object.values(path).flatMap(({ parameters = [] }) => parameters));
  assert(parameters.length > 20);
  // As the generator writes them, without the indentation of lines.
  const lines = types.replaceAll(/\n\s+/g, "\n");
  const missing = parameters.map(({ name, description, required }) => {
    const about = description === undefined ? "" : `/** @description ${description} */\n`;
    return `${about}${/^\w+$/.test(name) ? name : `"${name}"`}${required ? "" : "?"}: `;
  }).filter((text) => !lines.includes(text));
  assertEquals(missing, []);
});

Deno.test("both SDKs speak this version of the API, by stable routes alone", async () => {
  assert((await read("sdk/typescript/src/version.ts")).includes(`API_VERSION = "${API_VERSION}"`));
  assert((await read("sdk/python/src/sbx/_version.py")).includes(`API_VERSION = "${API_VERSION}"`));
  const stable = new Set(
    STABLE_ROUTES.map((route) => route.replace(/^\S+ /, "").replaceAll(/\{\w+\}/g, "*")),
  );
  for (const path of ["sdk/typescript/src/sandbox.ts", "sdk/python/src/sbx/_sandbox.py"]) {
    const text = await read(path);
    // Literal ends of a VM's paths; the classes of files and ports join theirs.
    const ends = [
      ...text.matchAll(/"(?:GET|POST|DELETE)", [f`"]?(?:\$?\{(?:self|this)\.path\})?(\/[\w/-]+)[`"]/g),
    ]
      .map(([, end]) => end);
    assert(ends.length > 8, path);
    const unknown = ends.filter((end) => !stable.has(end) && !stable.has(`/vms/*${end}`));
    assertEquals(unknown, [], path);
  }
});

function read(path: string): Promise<string> {
  return Deno.readTextFile(fromRoot(path));
}
