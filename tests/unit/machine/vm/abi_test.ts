/**
 * The C interface of ffi/SbxVM: header, exported functions, fields of its JSON and Deno's binding agree, and
 * none of them changes without a new version. `make test-swift` compares the compiled library with them.
 */
import { assert, assertEquals } from "@std/assert";
import { ABI_VERSION, SYMBOLS } from "../../../../ffi/SbxVM/binding.ts";
import { fromRoot } from "../../../helper/repo.ts";

interface Prototype {
  name: string;
  result: string;
  parameters: { type: string; name: string }[];
  comment: string;
}

const PACKAGE = fromRoot("ffi/SbxVM");
const header = await Deno.readTextFile(`${PACKAGE}/Sources/CSbxVM/sbxvm.h`);
const prototypes = prototypesOf(header);

/** Deno's types for those of the header. */
const TYPES: Record<string, string> = {
  "uint32_t": "u32",
  "int32_t": "i32",
  "uint64_t": "u64",
  "int64_t": "i64",
  "char *": "buffer",
  "const char *": "buffer",
};

Deno.test("the interface is that of its version: a change needs a new one in sbxvm.h, binding.ts and abi.json", async () => {
  const versions = JSON.parse(await Deno.readTextFile(`${PACKAGE}/abi.json`));
  const version = Number(header.match(/^#define SBXVM_ABI_VERSION (\d+)$/m)?.[1]);
  assertEquals(version, ABI_VERSION);
  assertEquals(version, Math.max(...Object.keys(versions).map(Number)));
  const functions = prototypes.map(({ name, result, parameters }) =>
    `${result} ${name}(${parameters.map(({ type, name }) => `${type} ${name}`).join(", ")})`
  );
  assertEquals(versions[version], { functions, ...await fields() });
});

Deno.test("Deno's binding has the functions of the header, with its types; only quick ones block", () => {
  assertEquals(Object.keys(SYMBOLS), prototypes.map(({ name }) => name));
  for (const { name, result, parameters } of prototypes) {
    const symbol: Deno.ForeignFunction = SYMBOLS[name as keyof typeof SYMBOLS];
    const expected = [TYPES[result], ...parameters.map(({ type }) => TYPES[type])];
    assertEquals([symbol.result, ...symbol.parameters], expected, name);
    const isQuick = ["sbxvm_version", "sbxvm_features", "sbxvm_create"].includes(name);
    assertEquals(symbol.nonblocking ?? false, !isQuick, name);
  }
});

Deno.test("each function of the header is exported by Swift once", async () => {
  const swift = await Deno.readTextFile(`${PACKAGE}/Sources/SbxVM/Exports.swift`);
  const exported = [...swift.matchAll(/^@_cdecl\("(\w+)"\)$/gm)].map(([, name]) => name);
  assertEquals(exported, prototypes.map(({ name }) => name));
});

Deno.test("the comment of a function names the owner of each of its pointers", () => {
  for (const { name, parameters, comment } of prototypes) {
    for (const { type, name: parameter } of parameters) {
      if (!type.endsWith("*")) continue;
      const owner = comment.split(/(?<=\.)\s/).find((sentence) => sentence.includes("the caller's"));
      // "the Unix socket at `path`" names it as well.
      assert(owner?.includes(`\`${parameter}\``), `${name}: who owns ${parameter}?`);
    }
  }
});

/** Declarations with the comment above each. */
function prototypesOf(text: string): Prototype[] {
  const declarations = text.matchAll(/\/\*((?:(?!\*\/)[^])*)\*\/\n([a-z0-9_]+) (sbxvm_\w+)\(([^)]*)\);/g);
  return [...declarations].map(([, comment, result, name, list]) => ({
    name,
    result,
    parameters: list === "void" ? [] : list.split(", ").map((parameter) => {
      const [, type, name] = parameter.match(/^(.*?[ *])(\w+)$/)!;
      return { type: type.trim(), name };
    }),
    comment: comment.replaceAll(/\s*\n \* ?/g, " ").trim(),
  }));
}

/** Names in the JSON that crosses the interface, as Swift declares them. */
async function fields(): Promise<Record<string, string[]>> {
  const read = (file: string) => Deno.readTextFile(`${PACKAGE}/Sources/SbxVM/${file}.swift`);
  const [spec, failure] = await Promise.all([read("Spec"), read("Failure")]);
  const keys = [...spec.matchAll(/enum CodingKeys[^{]*\{([^}]*)\}/g)].map(([, body]) =>
    [...body.matchAll(/case (.*)/g)].flatMap(([, list]) =>
      list.includes("=") ? [list.match(/"(.*)"/)![1]] : list.split(", ")
    ).sort()
  );
  return {
    disk: keys[0],
    share: keys[1],
    spec: keys[2],
    errors: [...failure.matchAll(/case \w+ = "([\w.]+)"/g)].map(([, code]) => code).sort(),
  };
}
