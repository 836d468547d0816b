import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { type Devcontainer, findDevcontainer, readDevcontainer } from "../../../../lib/publish/build/mod.ts";

/** Reads a text as the file of a folder, whose path is `DIR` in the result. */
async function read(text: string): Promise<Devcontainer> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-devcontainer-" });
  try {
    assertEquals(await findDevcontainer(dir), undefined);
    await Deno.mkdir(join(dir, ".devcontainer"));
    const path = join(dir, ".devcontainer/devcontainer.json");
    await Deno.writeTextFile(path, text);
    assertEquals(await findDevcontainer(dir), path);
    const found = await readDevcontainer(dir, path);
    return JSON.parse(JSON.stringify(found).replaceAll(dir, "DIR"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function codeOf(value: unknown): Promise<string> {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return (await assertRejects(() => read(text), SbxError)).code;
}

Deno.test("an image with variables; other fields are named", async () => {
  const text = `{
    // comments and a comma at the end
    "name": "App",
    "image": "golang:1.25",
    "containerEnv": { "MODE": "dev", "KEY": "\${localEnv:AWS_SECRET_ACCESS_KEY}" },
    "customizations": { "vscode": {} },
    "postCreateCommand": "make",
    "remoteUser": "me",
  }`;
  assertEquals(await read(text), {
    image: "golang:1.25",
    env: { MODE: "dev" },
    leftOut: ["postCreateCommand", "remoteUser", "containerEnv.KEY"],
  });
});

Deno.test("a build, by its own field and by the older ones", async () => {
  const build = {
    dockerfile: "Dockerfile",
    context: "..",
    target: "dev",
    args: { A: "1", B: "${x}" },
    cacheFrom: "x",
  };
  assertEquals(await read(JSON.stringify({ build })), {
    build: { file: "DIR/.devcontainer/Dockerfile", context: "DIR", target: "dev", args: { A: "1" } },
    env: {},
    leftOut: ["build.cacheFrom", "build.args.B"],
  });
  assertEquals((await read('{"dockerFile": "../Dockerfile"}')).build, {
    file: "DIR/Dockerfile",
    context: "DIR/.devcontainer",
    args: {},
  });
});

Deno.test("what would give another image, and what leads out of the folder, is refused", async () => {
  assertEquals(await codeOf({ image: "a", features: {} }), "devcontainer.unsupported");
  assertEquals(await codeOf({ dockerComposeFile: "compose.yml" }), "devcontainer.unsupported");
  const invalid = [
    {},
    { image: "a", build: { dockerfile: "b" } },
    { build: { dockerfile: "../../../etc/passwd" } },
    { build: { dockerfile: "/etc/passwd" } },
    { build: { dockerfile: "Dockerfile", context: "../.." } },
    { image: 1 },
    { image: "a", containerEnv: { "A B": "c" } },
    [],
    "{",
  ];
  for (const value of invalid) {
    assertEquals(await codeOf(value), "devcontainer.invalid", JSON.stringify(value));
  }
});
