/** The table of docs/guides/e2b.md against the declarations of E2B's client: each method has its row. */
import { assert, assertEquals } from "@std/assert";
import { fromRoot } from "../helper/repo.ts";

/** Classes of the client by their name in the table; `Sandbox` has the methods of its base too. */
const CLASSES: Record<string, readonly string[]> = {
  "Sandbox": ["SandboxApi", "Sandbox"],
  "sandbox.commands": ["Commands"],
  "sandbox.pty": ["Pty"],
  "sandbox.files": ["Filesystem"],
  "sandbox.git": ["Git"],
  "Template": ["TemplateBase"],
  "Volume": ["Volume"],
  "Secret": ["Secret"],
};
/** What a program does with a sandbox; the others are about E2B's own images, disks and secrets. */
const OF_SANDBOXES = ["Sandbox", "sandbox.commands", "sandbox.pty", "sandbox.files", "sandbox.git"];
const SHARE = 0.9;

/** Public methods of a class in its declarations. */
function methodsOf(declarations: string, name: string): string[] {
  const body = new RegExp(`^declare (?:abstract )?class ${name} [^\\n]*\\{\\n([^]*?)^\\}`, "m").exec(
    declarations,
  )?.[1] ?? "";
  assert(body !== "", `the client has no class ${name}`);
  const found = body.matchAll(/^ {2}(?:static )?([a-z]\w*)(?:<[^\n(]*>)?\(/gm);
  return [...new Set(Array.from(found, ([, method]) => method))].filter((method) => method !== "constructor");
}

Deno.test("each method of E2B's client is in the table, and nine of ten of a sandbox's work", async () => {
  const [declarations, guide] = await Promise.all(
    [".deno/sdk/node_modules/e2b/dist/index.d.ts", "docs/guides/e2b.md"].map((path) =>
      Deno.readTextFile(fromRoot(path))
    ),
  );
  const rows = [...guide.matchAll(/^\| `([\w.]+)` +\| ([^|]+)\| ([^|]+)\|$/gm)].map((
    [, name, methods, what],
  ) => ({
    name,
    methods: methods.trim() === "all"
      ? "all" as const
      : [...methods.matchAll(/`(\w+)`/g)].map(([, method]) => method),
    works: /^(works|as )/.test(what),
  }));
  const missing: string[] = [];
  const count = { works: 0, all: 0 };
  for (const [name, classes] of Object.entries(CLASSES)) {
    for (const method of new Set(classes.flatMap((each) => methodsOf(declarations, each)))) {
      const row = rows.find((row) =>
        row.name === name && (row.methods === "all" || row.methods.includes(method))
      );
      if (!row) missing.push(`${name}.${method}`);
      if (!OF_SANDBOXES.includes(name)) continue;
      count.all++;
      if (row?.works) count.works++;
    }
  }
  assertEquals(missing, []);
  assert(count.all > 60, `only ${count.all} methods were found`);
  assert(count.works >= SHARE * count.all, `${count.works} of ${count.all} work`);
  const unknown = rows.flatMap(({ name, methods }) =>
    methods === "all" || !CLASSES[name] ? [] : methods
      .filter((method) =>
        !CLASSES[name].some((each) =>
          declarations.includes(each) && methodsOf(declarations, each).includes(method)
        )
      )
      .map((method) => `${name}.${method}`)
  );
  assertEquals(unknown.filter((method) => !OPTIONS.has(method)), []);
});

/** Words of the table that are options of `Sandbox.create`. */
const OPTIONS = new Set(["Sandbox.mcp", "Sandbox.iam", "Sandbox.volumeMounts"]);

/** Names of the code interpreter's client by their part in the table. */
function interpreterNames(declarations: string): Record<string, string[]> {
  const bodyOf = (head: string) =>
    new RegExp(`^(?:declare )?${head} \\{\\n([^]*?)^\\}`, "m").exec(declarations)?.[1] ?? "";
  const fieldsOf = (head: string) =>
    Array.from(bodyOf(head).matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm), ([, name]) => name);
  const languages = /^type RunCodeLanguage = ([^;]+);/m.exec(declarations)?.[1] ?? "";
  return {
    interpreter: methodsOf(declarations, "Sandbox"),
    RunCodeOpts: [...fieldsOf("interface RunCodeOpts"), "language", "context"],
    CreateCodeContextOpts: fieldsOf("interface CreateCodeContextOpts"),
    RunCodeLanguage: Array.from(languages.matchAll(/'(\w+)'/g), ([, name]) => name),
    Result: fieldsOf("class Result"),
  };
}

Deno.test("each method, option, language and format of the code interpreter is in the table, and nine of ten work", async () => {
  const [declarations, guide] = await Promise.all(
    [".deno/sdk/node_modules/@e2b/code-interpreter/dist/index.d.ts", "docs/guides/e2b.md"].map((path) =>
      Deno.readTextFile(fromRoot(path))
    ),
  );
  const expected = interpreterNames(declarations);
  const listed: Record<string, string[]> = {};
  const count = { works: 0, all: 0 };
  for (const [, part, names, what] of guide.matchAll(/^\| `(\w+)` +\| ([^|]+)\| ([^|]+)\|$/gm)) {
    if (!Object.hasOwn(expected, part)) continue;
    const each = Array.from(names.matchAll(/`(\w+)`/g), ([, name]) => name);
    (listed[part] ??= []).push(...each);
    count.all += each.length;
    if (what.startsWith("works")) count.works += each.length;
  }
  for (const [part, names] of Object.entries(expected)) {
    assert(names.length > 2, `the client has no ${part}`);
    assertEquals(listed[part]?.toSorted(), names.toSorted(), part);
  }
  assert(count.works >= SHARE * count.all, `${count.works} of ${count.all} work`);
});
