/** Types of the SDKs are what their generators make of the stable API. */
import { assertEquals } from "@std/assert";
import { sdkTypes } from "../../scripts/sdk_types.ts";
import { fromRoot } from "../helper/repo.ts";
import { runChild } from "../helper/child.ts";

Deno.test("the SDKs' types are of schemas/api.v1.json (make sdk)", async () => {
  for (const [path, text] of Object.entries(await sdkTypes())) {
    assertEquals(await Deno.readTextFile(fromRoot(path)) === text, true, `${path} is stale`);
  }
});

Deno.test("every field of Python's types has a type that Python finds", async () => {
  const program = "import sbx.types, typing\n" +
    "shapes = [each for each in vars(sbx.types).values() if hasattr(each, '__required_keys__')]\n" +
    "for each in shapes: typing.get_type_hints(each)\n" +
    "print(len(shapes) > 50)";
  const { stdout, stderr } = await runChild("python3", {
    args: ["-c", program],
    env: { PYTHONPATH: fromRoot("sdk/python/src"), PYTHONDONTWRITEBYTECODE: "1" },
  });
  assertEquals(new TextDecoder().decode(stdout), "True\n", new TextDecoder().decode(stderr));
});
