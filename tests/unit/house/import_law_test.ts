/**
 * The law of imports: main → cmd → lib → ffi, never back; a role imports no other; no circles between areas
 * of lib, between their rooms, or between files; a room is entered by a `mod.ts` or a `schema.ts`; `base`
 * knows no domain; the gateway reads only HTTP.
 */
import { assert, assertEquals } from "@std/assert";
import { fromRoot, loadedAtOnce, runDeno } from "../../helper/repo.ts";

interface Module {
  specifier: string;
  dependencies?: { code?: { specifier?: string }; type?: { specifier?: string } }[];
}

/** One import between two files of this repository, or from one to a package. */
interface Import {
  from: string;
  /** path, or a package's specifier */
  to: string;
  local: boolean;
}

const GUEST = [
  "pty_agent",
  "net_proxy",
  "mcp_server",
  "activity",
  "ask",
  "bench",
  "container",
  "sign",
  "snapshots",
];

/** Programs and workers. `cmd/all.ts` names what `main.ts` loads by a computed name; it is no role. */
const ROOTS = [
  "main.ts",
  "cmd/all.ts",
  "cmd/desktop/main.tsx",
  "lib/ledger/read/rest_worker.ts",
  "lib/ledger/worker.ts",
  "lib/machine/live/worker.ts",
  "lib/base/confine/launcher_worker.ts",
  ...GUEST.map((name) => `cmd/guest/${name}/main.ts`),
];

const LAYERS = ["main.ts", "cmd", "lib", "ffi"];
/**
 * Areas of lib that have folders with a life of their own: each is a room beside the area's
 * own files, entered by its mod.ts.
 */
const ROOMS: Record<string, readonly string[]> = {
  policy: ["budget"],
  ledger: ["sink"],
  machine: ["bench", "guest", "limit", "live", "snapshot", "template", "vm"],
  network: ["aws", "ca", "dns", "git", "grpc", "model"],
  config: ["corp", "profile", "settings"],
  release: ["asset", "attest", "environment", "sbom", "setup", "signing"],
  publish: ["build", "devcontainer", "environment", "image", "package", "update"],
  session: ["forward", "gate", "ipc", "job"],
  client: ["api", "gateway", "tray"],
  lab: ["certify", "learn"],
  support: ["bundle", "debug", "doctor"],
};
/** Rooms that may open databases: of records, and of packages in images. */
const DATABASE_USERS = ["ledger", "publish/environment"];
/** Rooms of lib that guest programs load from. */
const GUEST_ROOMS = ["event", "machine/bench", "machine/guest", "machine/vm"];
const imports = await allImports(ROOTS);

Deno.test("imports go down the layers, and a role imports no other", () => {
  const broken = imports.filter(({ local }) => local).flatMap(({ from, to }) => {
    const [above, below] = [from, to].map((path) => LAYERS.indexOf(path.split("/")[0]));
    const up = above > below;
    const across = from !== "cmd/all.ts" && isCmd(from) && isCmd(to) && roleOf(from) !== roleOf(to);
    return up || across ? [`${from} → ${to}`] : [];
  });
  assertEquals(broken, []);
});

for (const [unit, of] of [["areas", areaOf], ["rooms", roomOf], ["files", (path: string) => path]] as const) {
  Deno.test(`${unit} do not import each other in circles`, () => {
    const edges = new Map<string, Set<string>>();
    for (const { from, to, local } of imports) {
      if (!local || of(from) === of(to) || unit !== "files" && !(isLib(from) && isLib(to))) continue;
      edges.set(of(from), (edges.get(of(from)) ?? new Set()).add(of(to)));
    }
    assertEquals(cyclesOf(edges), []);
  });
}

Deno.test("base knows no domain, and event is below policy and detection", () => {
  const broken = imports.filter(({ from, to, local }) =>
    local && isLib(from) && isLib(to) && (
      areaOf(from) === "base" && areaOf(to) !== "base" ||
      areaOf(from) === "event" && !["event", "base"].includes(areaOf(to))
    )
  );
  assertEquals(broken.map(({ from, to }) => `${from} → ${to}`), []);
});

Deno.test("a room of lib is entered by a mod.ts or a schema.ts", () => {
  const deep = imports.filter(({ from, to, local }) =>
    local && isLib(to) && roomOf(from) !== roomOf(to) && !/\/(mod|schema)\.ts$/.test(to)
  );
  assertEquals([...new Set(deep.map(({ from, to }) => `${from} → ${to}`))].sort(), []);
});

Deno.test("only the ledger and readers of packages open databases", () => {
  const broken = imports.filter(({ from, to, local }) =>
    !local && to === "node:sqlite" && !(isLib(from) && DATABASE_USERS.includes(roomOf(from)))
  );
  assertEquals(broken, []);
});

Deno.test("sbx doctor and sbx debug load no database before a bundle needs it: it may be what is broken", async () => {
  for (
    const root of ["cmd/sbx/admin/machine_report.ts", "cmd/sbx/admin/debug.ts", "cmd/sbx/start/doctor.ts"]
  ) {
    const loaded = await loadedAtOnce(root);
    assert(loaded.size > 10, root);
    assertEquals([...loaded].filter((specifier) => specifier.includes("sqlite")), [], root);
  }
});

Deno.test("the gateway, which faces the network, loads only base, itself and the comparison of tokens", async () => {
  const reached = (await allImports(["cmd/gateway/main.ts"])).filter(({ from }) =>
    !isCmd(from) || from.includes("gateway")
  );
  const foreign = reached.filter(({ to, local }) =>
    local
      ? !isCmd(to) && areaOf(to) !== "base" && roomOf(to) !== "client/gateway"
      : !/^(node:|npm:deno-std@[^/]+\/crypto\/)/.test(to)
  );
  assertEquals(foreign.map(({ from, to }) => `${from} → ${to}`), []);
});

Deno.test("guest programs load the wire, small tools and Linux's calls, and nothing of the host", () => {
  const foreign = imports.filter(({ from, to, local }) =>
    local && from.startsWith("cmd/guest/") && isLib(to) && areaOf(to) !== "base" &&
    !GUEST_ROOMS.includes(roomOf(to))
  );
  assertEquals(foreign.map(({ from, to }) => `${from} → ${to}`), []);
});

for (const name of GUEST.filter((name) => name !== "bench")) {
  Deno.test(`the bundle of ${name} loads no module of Node, which takes an emulated guest a quarter of a second`, async () => {
    const code = await runDeno(["bundle", "--quiet", "--platform", "deno", `cmd/guest/${name}/main.ts`]);
    assertEquals([...code.matchAll(/^import\b.*"([^"]+)";$/gm)].map((match) => match[1]), []);
    assert(code.includes("Deno."));
  });
}

Deno.test("every folder that this law names is there", async () => {
  const rooms = Object.entries(ROOMS).flatMap(([area, names]) => names.map((name) => `${area}/${name}`));
  for (const room of [...DATABASE_USERS, ...GUEST_ROOMS, ...rooms]) {
    assert((await Deno.stat(fromRoot(`lib/${room}`))).isDirectory, room);
  }
});

/** Imports of code and of types, which would become imports of code unnoticed. */
async function allImports(roots: string[]): Promise<Import[]> {
  const found = new Map<string, Import>();
  for (const root of roots) {
    const { modules } = JSON.parse(await runDeno(["info", "--json", root])) as { modules: Module[] };
    for (const { specifier, dependencies = [] } of modules) {
      const from = pathOf(specifier);
      if (!from) continue;
      for (const { code, type } of dependencies) {
        const target = code?.specifier ?? type?.specifier;
        if (target === undefined) continue;
        const path = pathOf(target);
        found.set(`${from} ${target}`, { from, to: path ?? target, local: path !== undefined });
      }
    }
  }
  return [...found.values()];
}

function pathOf(specifier: string): string | undefined {
  const root = `file://${fromRoot("")}`;
  return specifier.startsWith(root) ? specifier.slice(root.length) : undefined;
}

function isLib(path: string): boolean {
  return path.startsWith("lib/");
}

function isCmd(path: string): boolean {
  return path.startsWith("cmd/");
}

/** `policy` of `lib/policy/engine/cel.ts`. */
function areaOf(path: string): string {
  return path.split("/")[1];
}

/** The folder whose files import each other freely: an area, a room of it, or one of base's folders. */
function roomOf(path: string): string {
  const [root, area, name] = path.split("/");
  if (root !== "lib") return root;
  return area === "base" || ROOMS[area]?.includes(name) ? `${area}/${name}` : area;
}

function roleOf(path: string): string {
  const [, role, program] = path.split("/");
  return role === "guest" ? `guest/${program}` : role;
}

/** Units that reach themselves. */
function cyclesOf(edges: Map<string, Set<string>>): string[] {
  const reach = (from: string, seen = new Set<string>()): Set<string> => {
    for (const to of edges.get(from) ?? []) if (!seen.has(to)) reach(to, seen.add(to));
    return seen;
  };
  return [...edges.keys()].filter((name) => reach(name).has(name)).sort();
}
