/**
 * `sbx shell` with input that is not a terminal: it ends with its input, without ending the shared terminal.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Hono } from "hono";
import { home } from "../../lib/base/home/mod.ts";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";

const CTRL_D = 4;

/**
 * Creates a service with one terminal, whose shell is still starting.
 *
 * @param argvs receives the `argv` of each connection
 * @param ignored number of ctrl-D that the starting shell ignores
 */
function createService(argvs: (string | undefined)[], ignored: number): Hono {
  const app = new Hono();
  app.get("/version", (c) => c.json({}));
  app.get("/vms/:id/status", (c) => c.json({ id: "id-1", status: "Running" }));
  app.get("/terminal/demo", (c) => {
    argvs.push(c.req.query("argv"));
    const { socket, response } = Deno.upgradeWebSocket(c.req.raw);
    socket.binaryType = "arraybuffer";
    let ends = 0;
    // The terminal is there.
    socket.onopen = () => socket.send(new Uint8Array());
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") return;
      const bytes = new Uint8Array(data);
      if (bytes.at(-1) !== CTRL_D) return socket.send(bytes);
      if (++ends > ignored) socket.close(1000, "the terminal ended");
    };
    return response;
  });
  return app;
}

Deno.test(
  "shell: the end of the input ends it, also if the shell is still starting",
  { sanitizeResources: false, sanitizeOps: false },
  async () => {
    const dir = await Deno.makeTempDir({ prefix: "sbx-shell-" });
    const paths = home(new Map([["SBX_HOME", dir]]));
    await Deno.mkdir(paths.runDir);
    const argvs: (string | undefined)[] = [];
    const server = Deno.serve(
      { path: paths.serviceSocket, onListen: () => {} },
      createService(argvs, 2).fetch,
    );
    const sbx = (args: string[], input: string) =>
      runChild("/bin/sh", {
        args: [
          "-c",
          `printf '${input}' | timeout 30 "$@"`,
          "sh",
          Deno.execPath(),
          "run",
          "-A",
          "--quiet",
          fromRoot("main.ts"),
          ...args,
        ],
        env: { SBX_HOME: dir, SBX_RUN_DIR: paths.runDir, SBX_GATEWAY_PORT: "0", NO_COLOR: "1" },
      });
    try {
      const empty = await sbx(["shell", "demo"], "");
      assertEquals(empty.code, 0, new TextDecoder().decode(empty.stderr));
      const short = await sbx(["shell", "demo"], "hi");
      assertEquals([short.code, new TextDecoder().decode(short.stdout)], [0, "hi"]);
      // A separate shell, since its end would end the shared terminal.
      assertEquals(argvs, Array(2).fill('["/bin/bash","--login"]'));
      const help = await sbx(["shell", "--help"], "");
      assertStringIncludes(new TextDecoder().decode(help.stdout), "joins the first one's terminal");
    } finally {
      await sbx(["stop"], "");
      await server.shutdown();
      await Deno.remove(dir, { recursive: true });
    }
  },
);
