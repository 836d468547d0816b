/**
 * Both SDKs by the whole service over a VM whose programs run on this machine: programs, files, snapshots,
 * and a repository that is brought in and comes back as a patch. sdk_test.ts has a real VM.
 */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { sh } from "../helper/repository.ts";
import { RepositoryVm } from "../helper/repository_vm.ts";
import { Driver, LANGUAGES, SdkError } from "./driver.ts";

Deno.test({
  name: "the SDKs: programs, files, snapshots, a repository and its work as a patch",
  sanitizeOps: false,
  sanitizeResources: false,
  async fn(t) {
    for (const language of LANGUAGES) {
      await t.step(language, async () => {
        await using vm = await RepositoryVm.make();
        await using sdk = new Driver(language, {});
        // The service itself, which asks for no token.
        const { client } = await sdk.call("connect", { host: vm.client.base, token: "none" });
        const got = await sdk.call("get", { client, name: "dev" });
        const call = (op: string, args: Record<string, unknown> = {}) =>
          sdk.call(op, { vm: got.vm, ...args });

        const ran = await call("exec", { command: ["sh", "-c", "echo out ü; echo err >&2; exit 3"] });
        assertEquals([ran.stdout, ran.stderr, ran.exit_code, ran.truncated], ["out ü\n", "err\n", 3, false]);
        const failed = await assertRejects(
          () => call("exec", { command: ["sh", "-c", "echo bad >&2; exit 4"], check: true }),
          SdkError,
        );
        assertEquals([failed.reply.code, failed.reply.exit_code], ["program.failed", 4]);
        assertMatch(failed.reply.event_id!, /^[0-9a-f]{12}$/);
        const thrown = await assertRejects(
          () => call("count", { command: ["echo", "piece"], throw_after: 1 }),
          SdkError,
        );
        assertStringIncludes(thrown.reply.message, "the callback threw");

        // It has ended, with output to read, when the client has it.
        for (const size of [{}, { cols: 80, rows: 24 }]) {
          const ended = { text: "shown\n", code: 1000 };
          assertEquals(await call("pty", { command: ["true"], ...size }), ended);
        }
        const flat = await assertRejects(() => call("pty", { cols: 0, rows: 5 }), SdkError);
        assertEquals(flat.reply.code, "request.invalid");

        await call("write", { path: "deep/a.txt", content: "one ü", mode: "0755" });
        await call("make_folder", { path: "empty" });
        assertEquals(await call("read_text", { path: "deep/a.txt" }), "one ü");
        assertEquals((await call("list_files", { path: "", depth: 2 })).sort(), [
          "deep",
          "deep/a.txt",
          "empty",
        ]);
        const missing = await assertRejects(() => call("read_text", { path: "no" }), SdkError);
        assertEquals(missing.reply.code, "file.not_found");

        const to = await call("snapshot", { label: "before" });
        await call("write", { path: "deep/a.txt", content: "two" });
        assertEquals(await call("undo", { to, dry_run: true }), 1);
        assertEquals(await call("read_text", { path: "deep/a.txt" }), "two");
        await call("undo", { to });
        assertEquals(await call("read_text", { path: "deep/a.txt" }), "one ü");

        const here = join(vm.dir, "person", "web");
        await Deno.mkdir(here, { recursive: true });
        await sh(here, "echo one >a; git init -q -b main; git add -A; git commit -qm first");
        const raw = { client, method: "GET", path: "/vms/dev/info" };
        const body = { dir: here, place: vm.inside("web") };
        await vm.client.json("POST", "/vms/dev/repositories", { json: body });
        assertEquals((await sdk.call("raw", raw)).repositories[0].dir, here);
        assertEquals((await call("pull")).map(({ patch }: { patch: string }) => patch), [""]);
        await sh(vm.inside("web"), "echo two >>a");
        const [{ dir, patch }] = await call("pull");
        assertEquals(dir, here);
        assertStringIncludes(patch, "\n+two\n");
        // Again: it is the same folder, and the VM has work of its own.
        await sh(here, "git commit -q --allow-empty -m again");
        const diverged = await assertRejects(() => call("bring", { dir: here }), SdkError);
        assertEquals(diverged.reply.code, "repo.diverged");
        assertEquals(await call("status"), "Running");
      });
    }
  },
});
