/** Tests see the same environment whoever runs them. */
import { assertEquals } from "@std/assert";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

/** Variables that name things to test with (scripts/test.sh). */
const GIVEN = /^SBX_(TEST_|REQUIRE_|FLEET_ENGINES$|NATS_SERVER$|VM_LIBRARY$|TIME_FACTOR$)/;
const INNER = "a run of scripts/test.sh has no variable of the developer";

Deno.test(INNER, () => {
  // By itself, outside scripts/test.sh, the file says nothing about the runner.
  if (!Deno.env.has("SBX_TEST_RUN")) return;
  const names = Object.keys(Deno.env.toObject()).filter((name) => name.startsWith("SBX_"));
  assertEquals(names.filter((name) => !GIVEN.test(name)), []);
});

Deno.test("variables of the developer do not reach tests", async () => {
  const { code, stdout } = await runChild(fromRoot("scripts/test.sh"), {
    env: {
      TEST: "tests/unit/house/environment_test.ts",
      FILTER: INNER,
      SBX_RUN_DIR: "/nonexistent",
      SBX_GATEWAY_PORT: "1",
    },
  });
  const text = new TextDecoder().decode(stdout);
  assertEquals([code, text.trim().split("\n").at(-1)], [0, "1 passed, 0 failed"], text);
});
