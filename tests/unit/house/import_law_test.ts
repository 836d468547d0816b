/** The law of imports (architecture.md): main → cmd → lib → ffi, never back, and no cycles between folders of lib. */
import { assertEquals } from "@std/assert";
import { fromRoot, runDeno } from "../../helper/repo.ts";

interface Module {
  specifier: string;
  dependencies?: { code?: { specifier?: string }; type?: { specifier?: string } }[];
}

// cmd/all.ts names what main.ts loads by a computed name; it is no role. A worker is loaded by its name.
const ROOTS = [
  "main.ts",
  "cmd/all.ts",
  "lib/ledger/worker.ts",
  ...["pty_agent", "net_proxy", "mcp_server", "bench"].map((name) => `cmd/guest/${name}/main.ts`),
];

/** Folders of lib/ that know nothing of the domain, and what they may use. */
const FOUNDATION: Record<string, string[]> = { base: [] };
/** Who may open the database. */
const DATABASE_USERS = ["ledger", "session"];

Deno.test("the law of imports holds", async () => {
  const broken = new Set<string>();
  const edges = new Map<string, Set<string>>();
  for (const root of ROOTS) {
    const { modules } = JSON.parse(await runDeno(["info", "--json", root])) as { modules: Module[] };
    for (const { specifier, dependencies = [] } of modules) {
      const from = pathOf(specifier);
      if (!from) continue;
      for (const { code, type } of dependencies) {
        const target = code?.specifier ?? type?.specifier ?? "";
        const to = pathOf(target);
        if (!to) {
          if (target.includes("libsql") && !DATABASE_USERS.includes(noun(from))) {
            broken.add(`${from} opens the database`);
          }
          continue;
        }
        for (const complaint of check(from, to)) broken.add(complaint);
        if (from.startsWith("lib/") && to.startsWith("lib/") && noun(from) !== noun(to)) {
          edges.set(noun(from), (edges.get(noun(from)) ?? new Set()).add(noun(to)));
        }
      }
    }
  }
  for (const cycle of cyclesOf(edges)) broken.add(`lib: ${cycle} import each other`);
  assertEquals([...broken].sort(), []);
});

function* check(from: string, to: string): Generator<string> {
  const rank = ["main.ts", "cmd", "lib", "ffi"];
  const [above, below] = [from, to].map((path) => rank.indexOf(path.split("/")[0]));
  if (above > below) yield `${from} → ${to}: up the law`;
  if (
    from !== "cmd/all.ts" && from.startsWith("cmd/") && to.startsWith("cmd/") && roleOf(from) !== roleOf(to)
  ) yield `${from} → ${to}: one role imports another`;
  if (from.startsWith("lib/") && to.startsWith("lib/")) {
    const allowed = FOUNDATION[noun(from)];
    if (allowed && noun(from) !== noun(to) && !allowed.includes(noun(to))) {
      yield `${from} → ${to}: ${noun(from)} stands below the domain`;
    }
    if (noun(from) === "event" && ["policy", "detection"].includes(noun(to))) {
      yield `${from} → ${to}: event is below ${noun(to)}`;
    }
  }
}

function noun(path: string): string {
  return path.split("/")[1];
}

function roleOf(path: string): string {
  const [, role, program] = path.split("/");
  return role === "guest" ? `guest/${program}` : role;
}

function pathOf(specifier: string): string | undefined {
  const root = `file://${fromRoot("")}`;
  return specifier.startsWith(root) ? specifier.slice(root.length) : undefined;
}

/** Every pair of folders that reach each other. */
function cyclesOf(edges: Map<string, Set<string>>): string[] {
  const reach = (from: string, seen = new Set<string>()): Set<string> => {
    for (const to of edges.get(from) ?? []) if (!seen.has(to)) reach(to, seen.add(to));
    return seen;
  };
  return [...edges.keys()].filter((name) => reach(name).has(name)).sort();
}
