/** A template's machine: written down once its guest waits, and ended in any case. */
import { assertEquals, assertRejects } from "@std/assert";
import type { SbxError } from "../../../../lib/base/error/mod.ts";
import { type TemplateMachine, writeTemplate } from "../../../../lib/machine/template/mod.ts";
import { type Hypervisor, type MachineSpec, TEMPLATE_READY } from "../../../../lib/machine/vm/mod.ts";

/** Makes a template of a machine whose guest is `run`. @returns the calls of the machine, in their order */
async function make(
  run: (say: (text: string) => void, end: () => void) => void,
): Promise<{ calls: string[]; error?: SbxError }> {
  const calls: string[] = [];
  const exit = Promise.withResolvers<{ code: number; signal: string | null }>();
  const call = (name: string) => {
    calls.push(name);
    return Promise.resolve();
  };
  const hypervisor = {
    start: ({ onConsole }: MachineSpec) => {
      const say = (text: string) => onConsole(new TextEncoder().encode(text));
      setTimeout(() => run(say, () => exit.resolve({ code: 1, signal: null })));
      return Promise.resolve({
        exited: exit.promise,
        pause: () => call("pause"),
        resume: () => call("resume"),
        snapshot: ({ dir }: { dir: string }) => call(`snapshot ${dir}`),
        kill: () => call("kill"),
      });
    },
  } as Partial<Hypervisor> as Hypervisor;
  const made = writeTemplate(hypervisor, {} as TemplateMachine, "image");
  return { error: await made.then(() => undefined, (error) => error), calls };
}

Deno.test("a machine is written down when its guest says that it is ready, in whatever pieces", async () => {
  const { calls, error } = await make((say) => {
    say("x".repeat(5000));
    for (const char of `kernel\n${TEMPLATE_READY}\n`) say(char);
  });
  assertEquals([calls, error], [["snapshot image", "kill"], undefined]);
});

Deno.test("a machine that ends before is no template, and its last words say why", async () => {
  const { calls, error } = await make((say, end) => {
    say(`${"x".repeat(2000)}\nkernel panic\n`);
    end();
  });
  assertEquals([calls, error?.code], [["kill"], "template.failed"]);
  assertEquals(error?.message.replace(/x+/, "…"), "the machine of a template ended: …\nkernel panic");
  assertEquals(error?.message.length, "the machine of a template ended: ".length + 1023);
});

Deno.test("a machine that cannot be started is the error of its template", async () => {
  const failing = { start: () => Promise.reject(new Error("no qemu")) } as Partial<Hypervisor> as Hypervisor;
  await assertRejects(() => writeTemplate(failing, {} as TemplateMachine, "image"), Error, "no qemu");
});
