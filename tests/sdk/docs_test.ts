/** The examples of docs/guides/sdk.md: TypeScript's have the types of the SDK, Python's names are there. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";

const guide = await Deno.readTextFile(fromRoot("docs/guides/sdk.md"));

function blocks(language: string): string[] {
  return [...guide.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, "gm"))].map(([, code]) =>
    code
  );
}

Deno.test("the TypeScript examples of the guide pass the type check", async () => {
  const place = await Deno.makeTempDir({ prefix: "sbx-sdk-docs-" });
  const examples = blocks("ts");
  assert(examples.length >= 6);
  await Deno.writeTextFile(
    join(place, "deno.json"),
    JSON.stringify({ imports: { "@sbx/sdk": `file://${fromRoot("sdk/typescript/src/mod.ts")}` } }),
  );
  const files = await Promise.all(examples.map(async (code, at) => {
    const path = join(place, `example_${at}.ts`);
    await Deno.writeTextFile(path, `import process from "node:process";\n${code}\nvoid process;\n`);
    return path;
  }));
  const args = ["check", "--quiet", "--config", join(place, "deno.json"), ...files];
  const { code, stderr } = await runChild(Deno.execPath(), { args });
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  await Deno.remove(place, { recursive: true });
});

Deno.test("the Python examples of the guide are Python, and import what the module has", async () => {
  const examples = blocks("python");
  assert(examples.length >= 6);
  for (const code of examples) {
    const imports = code.split("\n").filter((line) => /^(from|import) /.test(line)).join("\n");
    const program = `compile(${JSON.stringify(code)}, "guide", "exec")\n${imports}`;
    const { code: exit, stderr } = await runChild("python3", {
      args: ["-c", program],
      env: { PYTHONPATH: fromRoot("sdk/python/src"), PYTHONDONTWRITEBYTECODE: "1" },
    });
    assertEquals(exit, 0, new TextDecoder().decode(stderr));
  }
});
