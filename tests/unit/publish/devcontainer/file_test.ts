import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  type Devcontainer,
  findDevcontainer,
  readDevcontainer,
} from "../../../../lib/publish/devcontainer/mod.ts";

/** Reads a text as the file of a folder, whose path is `DIR` in the result. */
async function read(text: string): Promise<Omit<Devcontainer, "path">> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-devcontainer-" });
  try {
    assertEquals(await findDevcontainer(dir), undefined);
    await Deno.mkdir(join(dir, ".devcontainer"));
    const path = join(dir, ".devcontainer/devcontainer.json");
    await Deno.writeTextFile(path, text);
    assertEquals(await findDevcontainer(dir), path);
    const { path: found, ...file } = await readDevcontainer(dir, path);
    assertEquals(found, path);
    return JSON.parse(JSON.stringify(file).replaceAll(dir, "DIR"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function errorOf(value: unknown): Promise<SbxError> {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return await assertRejects(() => read(text), SbxError);
}

Deno.test("an image, properties, features without values of this host; other fields are named", async () => {
  const text = `{
    // comments and a comma at the end
    "name": "App",
    "image": "golang:1.25",
    "containerEnv": { "MODE": "dev" },
    "features": {
      "ghcr.io/devcontainers/features/go:1": { "version": "1.25", "token": "\${localEnv:TOKEN}", "all": true },
      "./own": "\${localEnv:HOME}",
    },
    "overrideFeatureInstallOrder": ["./own"],
    "customizations": { "vscode": {} },
    "initializeCommand": "make",
    "postCreateCommand": "make",
    "remoteUser": "me",
    "workspaceFolder": "/src",
    "runArgs": ["--gpus", "all"],
    "privileged": true,
    "init": false,
    "capAdd": [],
    "hostRequirements": { "cpus": 2, "gpu": true },
  }`;
  assertEquals(await read(text), {
    image: "golang:1.25",
    features: {
      features: { "ghcr.io/devcontainers/features/go:1": { version: "1.25", all: true }, "./own": {} },
      order: ["./own"],
    },
    properties: {
      containerEnv: { MODE: "dev" },
      remoteUser: "me",
      postCreateCommand: "make",
      hostRequirements: { cpus: 2, gpu: true },
    },
    workspaceFolder: "/src",
    leftOut: [
      "initializeCommand, which would run on this host",
      "runArgs",
      "privileged",
      "hostRequirements.gpu",
      "features.ghcr.io/devcontainers/features/go:1.token",
      "features../own",
    ],
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
    properties: {},
    leftOut: ["build.cacheFrom", "build.args.B"],
  });
  assertEquals((await read('{"dockerFile": "../Dockerfile"}')).build, {
    file: "DIR/Dockerfile",
    context: "DIR/.devcontainer",
    args: {},
  });
});

Deno.test("a compose file is refused, with the commands that run it", async () => {
  const { code, hint } = await errorOf({ dockerComposeFile: ["compose.yml", "more.yml"], service: "app" });
  assertEquals(code, "devcontainer.unsupported");
  assertStringIncludes(hint!, "--profile=docker --from-dir");
  assertStringIncludes(hint!, "/.devcontainer sbx-devcontainer-");
  assertStringIncludes(hint!, "docker compose -f compose.yml -f more.yml up -d");
});

Deno.test("a compose file's name is one word of the command that a person may paste", async () => {
  const { hint } = await errorOf({ dockerComposeFile: ["a.yml; touch $(id)", "it's `x`.yml"] });
  assertStringIncludes(hint!, "-f 'a.yml; touch $(id)' -f 'it'\\''s `x`.yml' up -d");
});

Deno.test("a link out of the folder is refused: another file's values would get into the VM", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-devcontainer-" });
  try {
    const others = join(dir, "other.json"), path = join(dir, "repo/.devcontainer.json");
    await Deno.writeTextFile(others, '{"image": "a", "remoteEnv": {"TOKEN": "of another project"}}');
    await Deno.mkdir(join(dir, "repo"));
    await Deno.symlink(others, path);
    const error = await assertRejects(() => readDevcontainer(join(dir, "repo"), path), SbxError);
    assertEquals(error.code, "devcontainer.invalid");
    assertStringIncludes(error.message, "outside of the folder");
    await Deno.rename(others, join(dir, "repo/other.json"));
    await Deno.remove(path);
    await Deno.symlink("other.json", path);
    assertEquals((await readDevcontainer(join(dir, "repo"), path)).image, "a");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("what leads out of the folder, and values of another kind, are refused", async () => {
  const invalid = [
    {},
    { image: "a", build: { dockerfile: "b" } },
    { build: { dockerfile: "../../../etc/passwd" } },
    { build: { dockerfile: "/etc/passwd" } },
    { build: { dockerfile: "Dockerfile", context: "../.." } },
    { image: 1 },
    { image: "a", containerEnv: { "A B": "c" } },
    { image: "a", features: [] },
    { image: "a", features: { "./own": { option: 1 } } },
    { image: "a", forwardPorts: [70_000] },
    { image: "a", postCreateCommand: 1 },
    { image: "a", hostRequirements: { memory: "lots" } },
    [],
    "{",
  ];
  for (const value of invalid) {
    assertEquals((await errorOf(value)).code, "devcontainer.invalid", JSON.stringify(value));
  }
});
