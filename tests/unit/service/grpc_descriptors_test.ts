/** Descriptors of a profile: into its contract, and into the check of its rules. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { loadProfile } from "../../../lib/config/profile/mod.ts";
import { profileLayer, profileProblems } from "../../../lib/home/mod.ts";
import { openTypes } from "../../../lib/network/grpc/mod.ts";
import { compilePolicy, type Rule } from "../../../lib/policy/mod.ts";
import { echoDescriptors } from "../../helper/descriptors.ts";

const NO_CORP = { state: { status: "absent" } } as Parameters<typeof profileLayer>[1];

/** A home with a profile that names descriptors. @param match of its rule */
async function withProfile(
  match: string,
  run: (home: { profilesDir: string }, dir: string) => Promise<void>,
  grpc = '[grpc]\ndescriptors = ["echo.binpb"]\n',
): Promise<void> {
  const profilesDir = await Deno.makeTempDir({ prefix: "sbx-profiles-" });
  const dir = `${profilesDir}/echo`;
  try {
    await Deno.mkdir(dir);
    await Deno.writeFile(`${dir}/echo.binpb`, echoDescriptors());
    await Deno.writeTextFile(
      `${dir}/profile.toml`,
      `id = "echo"
name = "echo"
description = ""
revision = "1.0.0"

${grpc}
[profiles.rules.prod]
action = "block"
match = '''
${match}
'''
`,
    );
    await run({ profilesDir }, dir);
  } finally {
    await Deno.remove(profilesDir, { recursive: true });
  }
}

Deno.test("a contract has the descriptors that its profile names beside it", async () => {
  await withProfile('http.request.grpc.message.parent == "a"', async (home) => {
    const profile = await loadProfile(home, "echo");
    assertEquals(await profileProblems(profile), []);
    const { grpc_descriptors } = await profileLayer(profile, NO_CORP);
    const types = await openTypes(Uint8Array.fromBase64(grpc_descriptors!));
    assert(types.find("test.Echo", "Unary"));
  });
});

Deno.test("a field that no descriptor has is an error with its line and the nearest one", async () => {
  const match = 'true &&\nhttp.request.grpc.message.inner.parnt.startsWith("a")';
  await withProfile(match, async (home, dir) => {
    const profile = await loadProfile(home, "echo");
    const [problem, ...more] = await profileProblems(profile);
    assertEquals(more, []);
    assert(problem.startsWith(`${dir}/profile.toml:13: `), problem);
    assert(problem.includes('did you mean "parent"?'), problem);
    const error = await assertRejects(() => profileLayer(profile, NO_CORP), SbxError);
    assertEquals([error.code, error.message], ["policy.invalid", problem]);
  });
});

Deno.test("rules on messages need descriptors", async () => {
  await withProfile('http.request.grpc.message["parent"] == "a"', async (home) => {
    const [problem] = await profileProblems(await loadProfile(home, "echo"));
    assert(problem.includes("the profile has no descriptors"), problem);
  }, "");
});

Deno.test("a broken set is a problem of its profile that names the file and the cause", async () => {
  await withProfile('http.request.grpc.message.parent == "a"', async (home, dir) => {
    await Deno.writeFile(`${dir}/echo.binpb`, echoDescriptors().slice(0, -5));
    const profile = await loadProfile(home, "echo");
    const [problem, ...more] = await profileProblems(profile);
    assertEquals(more, []);
    assert(problem.includes(`${dir}/echo.binpb is not a set of descriptors`), problem);
    await assertRejects(() => profileLayer(profile, NO_CORP), SbxError, "is not a set of descriptors");
  });
});

Deno.test("rules that could see no message are refused", () => {
  const rule = (more: Partial<Rule>): Rule => ({
    ...{ id: "a", name: "a", layer: "profile", priority: 0, enabled: true, action: "block" },
    match: 'http.request.grpc.message.parent == "a"',
    ...more,
  });
  compilePolicy([
    rule({}),
    rule({ id: "b", layer: "corp", match: "has(http.request)" }),
    rule({ id: "c", match: `history.count("http.request", "has(http.request)", "1m") > 1` }),
  ]);
  const cases: [Partial<Rule>, string][] = [
    [{ layer: "corp" }, "descriptors belong to a profile"],
    [{ action: "observe" }, "the record does not hold it"],
    [
      { match: `history.count("http.request", "http.request.grpc.message.parent == 'a'", "1m") > 1` },
      "history holds no http.request.grpc.message",
    ],
  ];
  for (const [more, problem] of cases) {
    assertThrows(() => compilePolicy([rule(more)]), SbxError, problem);
  }
});
