/**
 * What a template has of the person whose VM ran before, and what confines a machine that started from it.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../../helper/child.ts";
import { eventually, Sbx } from "../../helper/sbx.ts";

const SECRET = `ghp_${"q7Xz".repeat(9)}`;
const MARKER = "marker-of-the-person-5e1f";

Deno.test("templates", async (t) => {
  const home = await Deno.makeTempDir({ prefix: "sbx-" });
  const templates = join(home, "templates");
  const sbx = await Sbx.make({ home, env: { SBX_TEMPLATES_DIR: templates } });
  try {
    await t.step("a template has nothing of the VM that ran before, nor of the home", async () => {
      await sbx.ok("create", "before-5e1f", "-e", `MINE=${MARKER}`, "-e", `GITHUB_TOKEN=${SECRET}`);
      const ref = (await sbx.ok("exec", "before-5e1f", "--", "printenv", "GITHUB_TOKEN")).trim();
      await sbx.ok("exec", "before-5e1f", "--", "sh", "-c", `echo ${MARKER} | tee /root/a /workspace/b`);
      const { id } = JSON.parse(await sbx.ok("info", "before-5e1f", "--json"));
      await eventually("the template is there", () => imageOf(templates) !== undefined, 180);
      const image = imageOf(templates)!;
      const ca = (await Deno.readTextFile(join(home, "ca/ca.crt"))).split("\n")[2];
      const personal = [MARKER, SECRET, ref, id, "before-5e1f", sbx.token, home, ca];
      for (const file of ["ram", "state"]) {
        assertEquals(await foundIn(join(image, file), personal), [], file);
      }
      // The search finds what is there.
      assertEquals(await foundIn(join(image, "ram"), [MARKER, "sbx-init: "]), ["sbx-init: "]);
      await sbx.ok("delete", "before-5e1f");
    });

    await t.step(
      "QEMU and its helpers are confined as after a boot, and have no other's memory open",
      async () => {
        await sbx.ok("create", "after");
        const { id, started_by, pid } = JSON.parse(await sbx.ok("info", "after", "--json"));
        assertEquals(started_by, "template");
        const [qemu, ...more] = await machinePids(sbx, "qemu-system");
        assertEquals(more, []);
        const disk = join(home, "sessions", id, "scratch.img");
        const vsock = await machinePids(sbx, "vhost-device-vsock");
        for (const of of [qemu, ...vsock]) {
          for (const { name: thread } of Deno.readDirSync(`/proc/${of}/task`)) {
            const status = await Deno.readTextFile(`/proc/${of}/task/${thread}/status`);
            const [seccomp, newPrivileges, capabilities] = ["Seccomp", "NoNewPrivs", "CapEff"].map((name) =>
              status.match(new RegExp(`^${name}:\\s*(\\w+)`, "m"))?.[1]
            );
            assertEquals([seccomp, newPrivileges, Number(capabilities)], ["2", "1", 0]);
          }
          assertEquals((await Deno.readTextFile(`/proc/${of}/environ`)).match(/^\w+=/gm), ["PATH="]);
          assertEquals(linksOf(of).filter((link) => link.startsWith(home)), of === qemu ? [disk] : []);
        }
        const memories = (of: number) =>
          linksOf(of).filter((link) => link.includes("sbx-memory") || link.startsWith(templates));
        // Once as it got it, and once as it opened it.
        assertEquals(memories(qemu), Array(2).fill("/memfd:sbx-memory (deleted)"));
        assertEquals(memories(pid), ["/memfd:sbx-memory (deleted)"]);
        for (const helper of ["virtiofsd", "vhost-device-vsock"]) {
          for (const each of await machinePids(sbx, helper)) {
            assert(memories(each).every((link) => !link.startsWith(templates)), `${helper} of ${id}`);
          }
        }
      },
    );

    await t.step("root of a guest cannot change what the next one starts from", async () => {
      const image = imageOf(templates)!;
      const before = await Deno.stat(join(image, "ram"));
      await sbx.ok(
        "exec",
        "after",
        "--",
        "sh",
        "-c",
        `echo ${MARKER} >/dev/shm/x; echo ${MARKER} >/root/x; sync`,
      );
      const { mtime, size } = await Deno.stat(join(image, "ram"));
      assertEquals([mtime, size], [before.mtime, before.size]);
      await sbx.ok("create", "next");
      const left = "ls /dev/shm/x /root/x 2>/dev/null; true";
      assertEquals(await sbx.ok("exec", "next", "--", "sh", "-c", left), "");
      assertEquals(JSON.parse(await sbx.ok("info", "next", "--json")).started_by, "template");
    });
  } finally {
    await sbx.dispose();
  }
});

/** Folder with the files of the only template. */
function imageOf(templates: string): string | undefined {
  try {
    const [dir] = [...Deno.readDirSync(templates)].filter(({ name }) => !name.startsWith("."));
    const { image } = JSON.parse(Deno.readTextFileSync(join(templates, dir.name, "template.json")));
    return join(templates, dir.name, image);
  } catch {
    return undefined;
  }
}

/** Open files of a process. */
function linksOf(pid: number): string[] {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].map(({ name }) => {
    try {
      return Deno.readLinkSync(`/proc/${pid}/fd/${name}`);
    } catch {
      return "";
    }
  });
}

/** Those of the texts that a file has, also in base64. */
async function foundIn(path: string, texts: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const text of texts) {
    // The end of the base64 depends on what follows.
    const encoded = btoa(text).slice(0, Math.floor(text.length / 3) * 4);
    const { code } = await runChild("grep", { args: ["-zqaF", "-e", text, "-e", encoded, path] });
    if (code === 0) found.push(text);
  }
  return found;
}

async function machinePids(sbx: Sbx, program: string): Promise<number[]> {
  const pids = await sbx.pids(program, sbx.home);
  // setpriv is replaced by the program, which its command line names.
  return pids.filter((pid) => Deno.readTextFileSync(`/proc/${pid}/comm`).startsWith(program.slice(0, 8)));
}
