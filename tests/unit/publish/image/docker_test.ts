/** The program of the guest that starts Docker's engine on demand; `make test-docker` runs real ones. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { DOCKER } from "../../../../lib/publish/image/docker.ts";
import { eventually } from "../../../helper/sbx.ts";

/**
 * Stands for the engine: answers with what it was given, or fails at once where there is
 * a file `fail`, or `fail-once`.
 */
const ENGINE = `#!/usr/bin/perl
die "no room\\n" if -e "$ENV{HOME_OF_TEST}/fail";
die "too slow\\n" if unlink "$ENV{HOME_OF_TEST}/fail-once";
open(my $socket, "+<&=", 3) or die;
accept(my $conn, $socket) or die;
syswrite($conn, join(" ", @ARGV, $ENV{LISTEN_PID} == $$, $ENV{LISTEN_FDS}, $ENV{PATH}));
close $conn;
`;

Deno.test(
  "the engine starts with the first connection, gets the socket, and one that fails keeps no client waiting",
  {
    ignore: Deno.build.os !== "linux",
  },
  async () => {
    const dir = await Deno.makeTempDir();
    const socket = join(dir, "docker.sock");
    await Deno.writeTextFile(join(dir, "dockerd"), ENGINE, { mode: 0o755 });
    const script = DOCKER.replace("/run/docker.sock", socket).replace(
      "/var/log/docker.log",
      join(dir, "log"),
    );
    await Deno.writeTextFile(join(dir, "starter"), script);
    const env = { PATH: `${dir}:/usr/bin:/bin`, HOME_OF_TEST: dir };
    const starter = new Deno.Command("/usr/bin/perl", {
      args: [join(dir, "starter")],
      env,
      stdin: "null",
      stderr: "piped",
    })
      .spawn();
    const ask = async () => {
      using conn = await Deno.connect({ transport: "unix", path: socket });
      return await new Response(conn.readable).text();
    };
    try {
      await eventually("the socket is there", () => Deno.stat(socket).then(() => true, () => false));
      assertEquals((await Deno.stat(socket)).mode! & 0o777, 0o660);
      for (let run = 0; run < 2; run++) {
        assertEquals(await ask(), `-H fd:// 1 1 /usr/lib/sbx/runtimes:${env.PATH}`);
      }
      await Deno.writeTextFile(join(dir, "fail-once"), "");
      assertStringIncludes(await ask(), "-H fd://", "a client waits for the next try");
      await Deno.writeTextFile(join(dir, "fail"), "");
      assertEquals(await ask(), "");
      assertStringIncludes(await Deno.readTextFile(join(dir, "log")), "no room\nno room\nno room\n");
      await Deno.remove(join(dir, "fail"));
      // The starter may still be closing what waited for the engine that failed.
      await eventually(
        "it starts again with a later connection",
        async () => (await ask()).startsWith("-H fd://"),
      );
    } finally {
      starter.kill("SIGKILL");
      const { stderr } = await starter.output();
      assertStringIncludes(new TextDecoder().decode(stderr), "log says why");
      await Deno.remove(dir, { recursive: true });
    }
  },
);
