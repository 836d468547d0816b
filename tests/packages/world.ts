/** A clean Debian, and the web server with the apt repository that it reads. */
import { assert } from "@std/assert";
import { join, normalize } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { NEW, OLD, publish } from "./build.ts";

/** A web server of the folder's repository, on loopback. */
export interface Server extends AsyncDisposable {
  url: string;
  /** apt must have taken its indices by their hash */
  requireByHash(): void;
}

export function serve(dir: string): Server {
  const paths: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const path = normalize(decodeURIComponent(new URL(request.url).pathname));
    paths.push(path);
    if (!path.startsWith("/apt/")) return new Response(null, { status: 404 });
    const file = await Deno.open(join(dir, path)).catch(() => undefined);
    if (!file || !(await file.stat()).isFile) return new Response(null, { status: 404 });
    return new Response(file.readable);
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    requireByHash() {
      const indices = paths.filter((path) => path.includes("/binary-"));
      assert(indices.length > 0 && indices.every((path) => path.includes("/by-hash/")), indices.join(" "));
      console.log("ok: indices are read by hash");
    },
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Runs the steps in a clean Debian; publishes the new version when they ask for it. */
export async function liveIn(
  suite: string,
  dir: string,
  packages: Record<string, string>,
  { url }: Server,
): Promise<void> {
  await Deno.remove(join(dir, "apt"), { recursive: true });
  await publish(dir, packages[OLD]);
  await Deno.copyFile(fromRoot("tests/packages/steps.sh"), join(dir, "steps.sh"));
  const args = [suite, dir, "bash", "/mnt/steps.sh", url, OLD, NEW];
  const child = new Deno.Command(fromRoot("tests/packages/root.sh"), { args, stdin: "null" }).spawn();
  const wish = join(dir, "want-new");
  const timer = setInterval(async () => {
    if (!await Deno.stat(wish).catch(() => undefined)) return;
    clearInterval(timer);
    await publish(dir, packages[NEW]);
    await Deno.remove(wish);
  }, 200);
  const { code } = await child.status;
  clearInterval(timer);
  assert(code === 0, `${suite}: exit code ${code}`);
}
