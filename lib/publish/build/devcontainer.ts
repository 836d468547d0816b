/** `devcontainer.json` (containers.dev): the parts that make a root file system, and its variables. */
import { dirname, join, resolve } from "node:path";
import { parse as parseJsonc } from "@std/jsonc";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { isBelow } from "./context.ts";

/** Most `bytes` of the file. */
const TEXT_MAX = 1024 * 1024;
/** Places of the file in a folder, the first that is there counts. */
const PLACES = [".devcontainer/devcontainer.json", ".devcontainer.json"];
/** Fields without effect on what runs. */
const HARMLESS = new Set(["$schema", "name", "customizations", "portsAttributes", "otherPortsAttributes"]);
/** Fields of {@linkcode File}. */
const KNOWN = new Set(["image", "build", "dockerFile", "context", "containerEnv"]);
/** Fields without which the image would be another one. */
const NEEDED = new Set(["features", "dockerComposeFile"]);

const text = z.string().min(1).max(4096);
const File = z.looseObject({
  image: text.optional(),
  dockerFile: text.optional(),
  context: text.optional(),
  build: z.looseObject({
    dockerfile: text,
    context: text.optional(),
    target: text.optional(),
    args: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string()).optional(),
  }).optional(),
  containerEnv: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string()).optional(),
});

/** The image of a devcontainer, and its variables. */
export interface Devcontainer {
  /** of a registry */
  image?: string;
  /** absolute paths */
  build?: { file: string; context: string; target?: string; args: Record<string, string> };
  env: Record<string, string>;
  /** fields without effect here, that would have one elsewhere */
  leftOut: string[];
}

/** Path of a folder's `devcontainer.json`, if it has one. */
export async function findDevcontainer(dir: string): Promise<string | undefined> {
  for (const place of PLACES) {
    const path = join(resolve(dir), place);
    if ((await ifFound(Deno.stat(path)))?.isFile) return path;
  }
  return undefined;
}

/**
 * Reads a `devcontainer.json`. A value with a variable (`${…}`) is left out: it would bring one of this host's into the VM.
 *
 * @param dir the folder that the VM gets; a build reads nothing outside of it
 * @throws {SbxError} `devcontainer.invalid`, `devcontainer.unsupported`
 */
export async function readDevcontainer(dir: string, path: string): Promise<Devcontainer> {
  const file = await readFile(path);
  const needed = Object.keys(file).filter((name) => NEEDED.has(name));
  if (needed.length > 0) {
    throw new SbxError(
      "devcontainer.unsupported",
      `${path} has ${needed.join(" and ")}, which sbx cannot build`,
      {
        hint: "write a Dockerfile that installs the same, and use it: --dockerfile",
      },
    );
  }
  const { image, build, dockerFile, context, containerEnv = {} } = file;
  const dockerfile = build?.dockerfile ?? dockerFile;
  if ((image === undefined) === (dockerfile === undefined)) {
    throw invalid(path, "it names no image and no Dockerfile, or both");
  }
  const leftOut = [
    ...Object.keys(file).filter((name) => !KNOWN.has(name) && !HARMLESS.has(name)),
    ...Object.keys(build ?? {}).filter((name) => !["dockerfile", "context", "target", "args"].includes(name))
      .map((name) => `build.${name}`),
  ];
  const plain = (values: Record<string, string>, field: string) =>
    Object.fromEntries(
      Object.entries(values).filter(([name, value]) => {
        const isPlain = !value.includes("${");
        if (!isPlain) leftOut.push(`${field}.${name}`);
        return isPlain;
      }),
    );
  const from = dirname(path);
  return {
    ...image !== undefined && { image },
    ...dockerfile !== undefined && {
      build: {
        file: await within(dir, resolve(from, dockerfile), path),
        context: await within(dir, resolve(from, build?.context ?? context ?? "."), path),
        ...build?.target !== undefined && { target: build.target },
        args: plain(build?.args ?? {}, "build.args"),
      },
    },
    env: plain(containerEnv, "containerEnv"),
    leftOut,
  };
}

async function readFile(path: string): Promise<z.output<typeof File>> {
  const { size } = await Deno.stat(path);
  if (size > TEXT_MAX) throw invalid(path, `it has more than ${TEXT_MAX} bytes`);
  try {
    return File.parse(parseJsonc(await Deno.readTextFile(path)));
  } catch (cause) {
    const issue = cause instanceof z.ZodError ? cause.issues[0] : undefined;
    throw invalid(
      path,
      issue ? `${issue.path.join(".")}: ${issue.message}` : "it is no JSON with comments",
      cause,
    );
  }
}

/** @throws {SbxError} `devcontainer.invalid`: a path, or the link there, leads out of the folder */
async function within(dir: string, path: string, file: string): Promise<string> {
  const real = await ifFound(Deno.realPath(path));
  if (isBelow(resolve(dir), path) && (real === undefined || isBelow(await Deno.realPath(dir), real))) {
    return path;
  }
  throw invalid(file, `${path} is outside of the folder`);
}

function invalid(path: string, problem: string, cause?: unknown): SbxError {
  return new SbxError("devcontainer.invalid", `${path} cannot be used: ${problem}`, {
    cause,
    hint: "containers.dev/implementors/json_reference describes its fields",
  });
}
