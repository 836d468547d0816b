/**
 * Published weaknesses of APIs on a person's own machine, tried on the real gateway, CLI and page.
 * docs/design/cves.md
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { DesktopPage } from "../../../lib/client/gateway/desktop/mod.ts";
import { Gateway, gatewayProcess, options, sleep } from "../../api/gateway_harness.ts";
import { runChild } from "../../helper/child.ts";
import { exists } from "../../helper/exists.ts";
import { fromRoot } from "../../helper/repo.ts";
import { sh } from "../../helper/repository.ts";

const statusOf = (answer: string) => Number(answer.split(" ")[1]);

Deno.test(
  "CVE-2024-28224: a page under a name that is led to this machine gets nothing, with or without the token",
  options,
  async () => {
    await using gateway = await Gateway.start();
    const { port, token } = gateway;
    for (
      const host of [
        `evil.example.com:${port}`,
        "evil.example.com",
        `127.0.0.1.evil.example.com:${port}`,
        `localhost.:${port}x`,
      ]
    ) {
      for (const field of ["", `Authorization: Bearer ${token}\r\n`]) {
        for (const path of ["/vms/list", "/health", "/desktop/", "/version"]) {
          const answer = await gateway.raw(
            `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${field}Connection: close\r\n\r\n`,
          );
          assert([400, 403, 421].includes(statusOf(answer)), `${host} ${path}: ${answer}`);
        }
      }
    }
    assertEquals(gateway.service.seen, []);
  },
);

Deno.test("CVE-2025-52882: a web page cannot open a terminal's WebSocket", options, async () => {
  await using gateway = await Gateway.start();
  const { port } = gateway;
  const upgrade =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  for (
    const path of [
      "/terminal/demo",
      "/terminal/demo?token=",
      "/terminal/demo?token=x",
      "/events",
      "/vms/demo/shell",
    ]
  ) {
    for (
      const origin of [
        "https://evil.example.com",
        "null",
        `http://127.0.0.1.evil.example.com:${port}`,
        "http://localhost:3000",
      ]
    ) {
      const answer = await gateway.raw(
        `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nOrigin: ${origin}\r\n${upgrade}\r\n`,
      );
      assert(statusOf(answer) >= 400, `${path} ${origin}: ${answer}`);
    }
  }
  assertEquals(gateway.service.seen, []);
});

Deno.test(
  "CVE-2026-22812: a request without the token runs nothing, and no other origin reads an answer",
  options,
  async () => {
    await using gateway = await Gateway.start();
    const base = `http://127.0.0.1:${gateway.port}`;
    const body = JSON.stringify({ command: "id" });
    for (const path of ["/vms/demo/exec", "/run", "/vms/create"]) {
      for (const type of ["text/plain", "application/json", "application/x-www-form-urlencoded"]) {
        const headers = { "content-type": type, origin: "https://evil.example.com" };
        const answer = await fetch(base + path, { method: "POST", headers, body });
        assertEquals(
          [answer.status === 401 || answer.status === 403, answer.headers.get("access-control-allow-origin")],
          [true, null],
          path,
        );
        await answer.body?.cancel();
      }
      const preflight = await fetch(base + path, {
        method: "OPTIONS",
        headers: {
          origin: "https://evil.example.com",
          "access-control-request-method": "POST",
          "access-control-request-headers": "authorization, content-type",
          "access-control-request-private-network": "true",
        },
      });
      for (const name of ["origin", "methods", "headers", "private-network", "credentials"]) {
        assertEquals(preflight.headers.get(`access-control-allow-${name}`), null, name);
      }
      await preflight.body?.cancel();
    }
    assertEquals(gateway.service.seen, []);
  },
);

Deno.test(
  "CVE-2025-49596: the gateway is not there under 0.0.0.0, nor on an address of the network",
  options,
  async () => {
    await using gateway = await Gateway.start();
    const { port, token } = gateway;
    const answer = await gateway.raw(
      `GET /vms/list HTTP/1.1\r\nHost: 0.0.0.0:${port}\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
    );
    assert(statusOf(answer) >= 400, answer);
    const outward = Deno.networkInterfaces().map(({ address }) => address).filter((address) =>
      !/^127\.|^::1$|^fe80/.test(address)
    );
    for (const hostname of [...outward, "127.0.0.2"]) {
      const opened = await Deno.connect({ hostname, port }).then((conn) => {
        conn.close();
        return hostname;
      }, () => undefined);
      assertEquals(opened, undefined);
    }
    assertEquals(gateway.service.seen, []);
  },
);

Deno.test(
  "CVE-2025-30208: no form of a path makes the page's server send another file",
  options,
  async () => {
    const dir = await Deno.makeTempDir();
    await sh(
      dir,
      "mkdir -p page gateway; echo '<p>page' >page/index.html; echo secret >secret.js; echo secret >gateway.token; mkdir page-evil; echo secret >page-evil/x.js",
    );
    const page = new DesktopPage(join(dir, "page"));
    const forms = [
      "../secret.js",
      "..%2fsecret.js",
      "%2e%2e/secret.js",
      "..\\secret.js",

      "../page-evil/x.js",
      "../gateway.token",
      `@fs${dir}/secret.js`,
      `${dir}/secret.js`,
    ];
    for (const form of forms) {
      for (const end of ["", "?raw??", "?import&raw??", "?url", "#x", "%00.js"]) {
        const path = `${form}${end}`;
        await assertRejects(() => page.file(path), SbxError, undefined, path);
      }
    }
    await Deno.remove(dir, { recursive: true });
    await using gateway = await Gateway.start();
    for (const form of forms) {
      for (const end of ["", "?raw??"]) {
        const answer = await gateway.raw(
          `GET /desktop/${form}${end} HTTP/1.1\r\nHost: 127.0.0.1:${gateway.port}\r\nConnection: close\r\n\r\n`,
        );
        assert(!answer.includes(gateway.token) && statusOf(answer) !== 200, answer);
      }
    }
  },
);

Deno.test(
  "CVE-2026-1386: links in the place of the gateway's files are replaced, not written through",
  options,
  async () => {
    const home = await Deno.makeTempDir();
    const [run, victim] = [join(home, "run"), join(home, "victim")];
    await Deno.writeTextFile(victim, "precious");
    await Deno.mkdir(run, { mode: 0o700 });
    for (const name of ["gateway.token", "gateway.port", "gateway.pid", "gateway.lock"]) {
      await Deno.symlink(
        victim,
        join(run, name),
      );
    }
    const child = gatewayProcess(home, ["--port", "0"]).spawn();
    const ended = child.status.then(() => true);
    while (!await Promise.race([ended, sleep(50)]) && (await Deno.lstat(join(run, "gateway.pid"))).isSymlink);
    try {
      child.kill("SIGTERM");
    } catch { /* it refused to start */ }
    await child.stderr.cancel();
    await child.status;
    assertEquals(await Deno.readTextFile(victim), "precious");
    await Deno.remove(home, { recursive: true });
  },
);

/** Runs the CLI in a folder, with a home of its own. */
async function withCli(
  run: (dir: string, sbx: (cwd: string, ...args: string[]) => Promise<string>) => Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  const sbx = async (cwd: string, ...args: string[]) => {
    const { code, stdout, stderr } = await runChild("sh", {
      args: ["-c", 'umask 0; exec "$0" "$@"', fromRoot("bin/sbx"), ...args],
      cwd,
      env: { SBX_HOME: join(dir, "home"), SBX_GATEWAY_PORT: "0", NO_COLOR: "1" },
    }, 120_000);
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    assertEquals(code, 0, text);
    return text;
  };
  try {
    await run(dir, sbx);
  } finally {
    await sbx(dir, "stop", "--all");
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("CVE-2024-25621: folders and files that sbx makes are its user's alone, whatever the umask", () =>
  withCli(async (dir, sbx) => {
    await sbx(dir, "start");
    await sbx(dir, "settings", "set", "vm.live_folders", "false");
    assert(await exists(join(dir, "home/run/gateway.token")));
    assertEquals(await sh(dir, "find home -perm /077 ! -type l -printf '%M %p\\n' | sort"), "");
  }));

Deno.test("CVE-2025-61260: configuration in the folder of a project changes nothing of sbx", () =>
  withCli(async (dir, sbx) => {
    const project = join(dir, "project");
    const evil =
      "SBX_HOME=./evil\nSBX_CORP_CONFIG=./corp.toml\nSBX_RUN_DIR=./evil\nHTTP_PROXY=http://127.0.0.1:1\n";
    await Deno.mkdir(join(project, ".sbx"), { recursive: true });
    const settings = '[settings."vm.live_folders"]\nvalue = false\n';
    await Promise.all([
      [".env", evil],
      [".sbx/settings.toml", settings],
      ["settings.toml", settings],
      ["corp.toml", settings],
      [".sbx/corp.toml", settings],
      ["deno.json", '{"imports":{"zod":"./evil.ts","hono":"./evil.ts"}}'],
      ["evil.ts", 'Deno.writeTextFileSync("ran", "");'],
      ["package.json", '{"type":"module","dependencies":{"zod":"file:./evil.ts"}}'],
      [".npmrc", "registry=http://127.0.0.1:1\n"],
      ["main.ts", 'Deno.writeTextFileSync("ran", "");'],
    ].map(([name, text]) => Deno.writeTextFile(join(project, name), text)));
    const before = await sh(project, "find . | sort");
    // The first command starts the gateway, and says so.
    await sbx(dir, "start");
    const here = await sbx(project, "settings", "get", "vm.live_folders");
    await sbx(project, "list");
    assertEquals(here, await sbx(dir, "settings", "get", "vm.live_folders"));
    assertEquals(await sh(project, "find . | sort"), before);
  }));
