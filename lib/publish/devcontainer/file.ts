/** `devcontainer.json` (containers.dev), as the folder has it. */
import { basename, dirname, join, posix, relative, resolve } from "node:path";
import { parse as parseJsonc } from "@std/jsonc";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { quoteWord } from "../../base/text/mod.ts";
import { defaultPlace } from "../../repo/mod.ts";
import { isBelow } from "../build/mod.ts";
import { namesWithoutEffect, PROPERTIES, type Properties, WITHOUT_EFFECT } from "./properties.ts";
import { hasHostVariable } from "./variables.ts";

/** Most `bytes` of the file. */
const TEXT_MAX = 1024 * 1024;
/** Places of the file in a folder, the first that is there counts. */
const PLACES = [".devcontainer/devcontainer.json", ".devcontainer.json"];
/** Fields without effect on what runs. */
const HARMLESS = new Set([
  "$schema",
  "name",
  "customizations",
  "otherPortsAttributes",
  "updateRemoteUserUID",
  "waitFor",
  "overrideCommand",
  "shutdownAction",
]);

const text = z.string().min(1).max(4096);
/** Fields of the file that are followed; others are named. */
const FIELDS = {
  ...PROPERTIES,
  image: text.optional(),
  dockerFile: text.optional(),
  context: text.optional(),
  build: z.looseObject({
    dockerfile: text,
    context: text.optional(),
    target: text.optional(),
    args: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string()).optional(),
  }).optional(),
  features: z.record(
    text,
    z.union([z.string(), z.boolean(), z.record(z.string(), z.union([z.string(), z.boolean()]))]),
  ).optional(),
  overrideFeatureInstallOrder: z.array(text).optional(),
  workspaceFolder: text.optional(),
  workspaceMount: z.string().max(4096).optional(),
} as const;
const File = z.looseObject(FIELDS);

/** A `devcontainer.json`. */
export interface Devcontainer {
  path: string;
  /** of a registry */
  image?: string;
  /** absolute paths */
  build?: { file: string; context: string; target?: string; args: Record<string, string> };
  features?: { features: Record<string, unknown>; order?: string[] };
  properties: Properties;
  workspaceFolder?: string;
  workspaceMount?: string;
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
 * Reads a `devcontainer.json`. Whatever would bring a value of this host into the VM is left out.
 *
 * @param dir the folder that the VM gets; a build reads nothing outside of it
 * @throws {SbxError} `devcontainer.invalid`, `devcontainer.unsupported`
 */
export async function readDevcontainer(dir: string, path: string): Promise<Devcontainer> {
  // A link of the folder's author may lead to the settings of any other project.
  const file = await readFile(await within(dir, path, path));
  if (file.dockerComposeFile !== undefined) {
    const name = basename(resolve(dir)).replaceAll(/[^A-Za-z0-9_-]+/g, "-").replace(/^[-_]+/, "") || "dev";
    const place = posix.join(defaultPlace(dir), relative(resolve(dir), dirname(path)));
    const files = [file.dockerComposeFile].flat().filter((each) => typeof each === "string");
    throw new SbxError(
      "devcontainer.unsupported",
      `${path} names a compose file, whose services are not VMs`,
      {
        // A person may paste it: whatever the file says stays one word.
        hint:
          `run them in a VM with Docker: sbx create ${name} --profile=docker --from-dir ${quoteWord(dir)}, ` +
          `then sbx exec --cwd ${quoteWord(place)} ${name} -- docker compose ${
            files.map((each) => `-f ${quoteWord(each)} `).join("")
          }up -d`,
      },
    );
  }
  const { image, build, dockerFile, context, features = {}, overrideFeatureInstallOrder: order } = file;
  const { workspaceFolder, workspaceMount } = file;
  const dockerfile = build?.dockerfile ?? dockerFile;
  if ((image === undefined) === (dockerfile === undefined)) {
    throw invalid(path, "it names no image and no Dockerfile, or both");
  }
  const leftOut = [
    ...Object.keys(file).filter((name) => !isKnown(name)).map((name) =>
      name === "initializeCommand" ? "initializeCommand, which would run on this host" : name
    ),
    ...namesWithoutEffect(file),
    ...Object.keys(build ?? {}).filter((name) => !["dockerfile", "context", "target", "args"].includes(name))
      .map((name) => `build.${name}`),
    ...Object.keys(file.hostRequirements ?? {}).filter((name) =>
      !["cpus", "memory", "storage"].includes(name)
    )
      .map((name) => `hostRequirements.${name}`),
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
  const chosen = Object.entries(features).map(([name, options]): [string, unknown] => [
    name,
    withoutHost(options, (option) => leftOut.push(`features.${name}${option ? `.${option}` : ""}`)),
  ]);
  return {
    path,
    ...image !== undefined && { image },
    ...dockerfile !== undefined && {
      build: {
        file: await within(dir, resolve(from, dockerfile), path),
        context: await within(dir, resolve(from, build?.context ?? context ?? "."), path),
        ...build?.target !== undefined && { target: build.target },
        args: plain(build?.args ?? {}, "build.args"),
      },
    },
    ...chosen.length > 0 && { features: { features: Object.fromEntries(chosen), ...order && { order } } },
    properties: Object.fromEntries(
      Object.keys(PROPERTIES).flatMap((name) => file[name] === undefined ? [] : [[name, file[name]]]),
    ),
    ...workspaceFolder !== undefined && { workspaceFolder },
    ...workspaceMount !== undefined && { workspaceMount },
    leftOut,
  };
}

function isKnown(name: string): boolean {
  return name in FIELDS || HARMLESS.has(name) || (WITHOUT_EFFECT as readonly string[]).includes(name);
}

/** A feature's options, without the ones that have a value of this host. */
function withoutHost(
  options: string | boolean | Record<string, string | boolean>,
  report: (option?: string) => void,
): unknown {
  const isOfHost = (value: string | boolean) => typeof value === "string" && hasHostVariable(value);
  if (typeof options !== "object") {
    if (!isOfHost(options)) return options;
    report();
    return {};
  }
  return Object.fromEntries(
    Object.entries(options).filter(([name, value]) => {
      if (isOfHost(value)) report(name);
      return !isOfHost(value);
    }),
  );
}

async function readFile(path: string): Promise<z.output<typeof File> & Record<string, unknown>> {
  const { size } = await Deno.stat(path);
  if (size > TEXT_MAX) throw invalid(path, `it has more than ${TEXT_MAX} bytes`);
  try {
    return File.parse(parseJsonc(await Deno.readTextFile(path)));
  } catch (cause) {
    const issue = cause instanceof z.ZodError ? cause.issues[0] : undefined;
    throw invalid(
      path,
      issue ? `${issue.path.join(".")}: ${issue.message}` : "it is not JSON with comments",
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
