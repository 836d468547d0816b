/** A Dockerfile that an SDK names: built by buildah in a VM, and booted. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";
import { Driver } from "../sdk/driver.ts";

const DOCKERFILE = `FROM scratch
COPY bin /bin
ENV PATH=/bin GREETING=hello
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN echo "$GREETING of the build" >/made
`;

Deno.test("Sandbox.create builds a Dockerfile and boots it: a folder, and a file that is named", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const dir = await Deno.makeTempDir({ prefix: "sbx-sdk-" });
  try {
    await Deno.mkdir(join(dir, "bin"));
    await Deno.copyFile("/bin/busybox", join(dir, "bin/busybox"));
    await Deno.writeTextFile(join(dir, "Dockerfile"), DOCKERFILE);
    await Deno.writeTextFile(join(dir, "dev.Dockerfile"), DOCKERFILE + 'RUN ["/no/such/program"]\n');
    await sbx.ok("start");
    for (const [language, dockerfile] of [["deno", dir], ["python", join(dir, "Dockerfile")]] as const) {
      await t.step(language, async () => {
        const path = `${fromRoot("bin")}:${Deno.env.get("PATH")}`;
        await using sdk = new Driver(language, { ...sbx.env, PATH: path });
        const { client } = await sdk.call("connect", { home: sbx.home });
        const { vm } = await sdk.call("create", { client, dockerfile, ram_mb: 512 });
        const ran = await sdk.call("exec", { vm, command: ["sh", "-c", "cat /made; echo $GREETING"] });
        assertEquals([ran.stdout, ran.exit_code], ["hello of the build\nhello\n", 0]);
        await sdk.call("dispose", { vm });
        const broken = join(dir, "dev.Dockerfile");
        const refused = await sdk.call("create", { client, dockerfile: broken }).catch(({ reply }) =>
          reply.code
        );
        assertEquals(refused, "image.build_failed");
        const left: string[] = await sdk.call("list", { client });
        assertEquals(
          left.filter((name) => !name.startsWith("builder-")),
          [],
          "nothing but the VM of the build",
        );
      });
    }
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
});
