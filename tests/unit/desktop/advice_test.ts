/** Commands that the page offers to copy, found in the advice of issues and checks. */
import { assertEquals } from "@std/assert";
import { commandsOf, isCommand, partsOf } from "../../../cmd/desktop/part/advice.ts";

Deno.test("desktop: the advice of an issue has its commands apart from its words", () => {
  assertEquals(
    partsOf('VM "dev" runs image 1; its profile boots 2 now (sbx stop dev, then sbx start dev)').commands,
    ["sbx stop dev", "sbx start dev"],
  );
  assertEquals(
    partsOf("the collecting server does not take records (sbx corp shows it; they are sent once it does)"),
    {
      what: "the collecting server does not take records",
      advice: "sbx corp shows it; they are sent once it does",
      commands: ["sbx corp"],
    },
  );
  assertEquals(partsOf('VM "a": it does not answer (pid 12)'), {
    what: 'VM "a": it does not answer (pid 12)',
    commands: [],
  });
});

Deno.test("desktop: a line of a shell stays whole, prose has no command", () => {
  assertEquals(commandsOf("sudo modprobe kvm_intel"), ["sudo modprobe kvm_intel"]);
  assertEquals(commandsOf("sbx suspend NAME, or sbx stop"), ["sbx suspend NAME", "sbx stop"]);
  assertEquals(commandsOf("build it: sbx image build code"), ["sbx image build code"]);
  assertEquals(commandsOf("use a Mac with Apple silicon"), []);
});

Deno.test("desktop: advice that begins with a command keeps its small letter", () => {
  assertEquals(isCommand("sbx image build code, or sbx update"), true);
  assertEquals(isCommand("sbxish words are no command"), false);
});
