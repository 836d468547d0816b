/** `sbx shell` whose input is no terminal: it ends with its input, and takes nobody's terminal with it. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Hono } from "hono";
import { home } from "../../lib/base/home/mod.ts";
import { fromRoot } from "../helper/repo.ts";

const CTRL_D = 4;

/** A service with one terminal: a shell that is only just starting, and so does not hear what comes first. */
function service(argvs: (string | undefined)[], deaf: number): Hono {
  const app = new Hono();
  app.get("/version", (c) => c.json({}));
  app.get("/vms/:id/status", (c) => c.json({ id: "id-1", status: "Running" }));
  app.get("/terminal/demo", (c) => {
    argvs.push(c.req.query("argv"));
    const { socket, response } = Deno.upgradeWebSocket(c.req.raw);
    socket.binaryType = "arraybuffer";
    let ends = 0;
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") return;
      const bytes = new Uint8Array(data);
      if (bytes.at(-1) !== CTRL_D) return socket.send(bytes);
      if (++ends > deaf) socket.close(1000, "the terminal ended");
    };
    return response;
  });
  return app;
}

Deno.test(
  "shell: the end of the input ends it, also when the shell was not ready to hear it at once",
  { sanitizeResources: false, sanitizeOps: false },
  async () => {
    const dir = await Deno.makeTempDir({ prefix: "sbx-shell-" });
    const paths = home(new Map([["SBX_HOME", dir]]));
    await Deno.mkdir(paths.runDir);
    const argvs: (string | undefined)[] = [];
    const server = Deno.serve(
      { path: paths.serviceSocket, onListen: () => {} },
      service(argvs, 2).fetch,
    );
    const sbx = (args: string[], input: string) =>
      new Deno.Command("/bin/sh", {
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
      }).output();
    try {
      const none = await sbx(["shell", "demo"], "");
      assertEquals(none.code, 0, new TextDecoder().decode(none.stderr));
      const some = await sbx(["shell", "demo"], "hi");
      assertEquals([some.code, new TextDecoder().decode(some.stdout)], [0, "hi"]);
      // Not the terminal that everybody shares: its end would end theirs.
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
