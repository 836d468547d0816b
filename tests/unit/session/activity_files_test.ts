/** What a guest reports of files and ports, as the session records it. */
import { assertEquals } from "@std/assert";
import { channelOf, exec, exit, hello, recording, started } from "../../helper/activity.ts";

Deno.test("what programs do with files is an event of the program, also after its end", async () => {
  const { gate, record } = await recording();
  const file = (operation: string, path: string, pid: number, more = {}) => ({
    t: "File",
    operation,
    path,
    pid,
    ...more,
  });
  await record.serve(channelOf(
    hello(),
    started,
    exec(10, 4, "make"),
    file("write", "/workspace/a\n.txt", 10, { bytes: 5 }),
    exit(10),
    file("rename", "/workspace/.env", 10, { from: "/workspace/x" }),
    file("delete", "/workspace/x", 99),
  ));
  const make = gate.entries.find(({ event }) => event.process?.activity.command === "make")!.event;
  const label = { event_id: make.common.event_id };
  assertEquals(
    gate.entries.flatMap(({ event: { common, file } }) =>
      file ? [[file.activity, common.labels, common.process?.command, common.actor]] : []
    ),
    [
      [
        {
          operation: "write",
          path: "/workspace/a\n.txt",
          path_class: "workspace",
          name: "a\n.txt",
          ext: "txt",
          byte_count: 5,
        },
        label,
        "make",
        "vm",
      ],
      [
        {
          operation: "rename",
          path: "/workspace/.env",
          path_class: "secret",
          name: ".env",
          ext: "",
          byte_count: 0,
        },
        { from: "/workspace/x", ...label },
        "make",
        "vm",
      ],
      [
        {
          operation: "delete",
          path: "/workspace/x",
          path_class: "workspace",
          name: "x",
          ext: "",
          byte_count: 0,
        },
        {},
        undefined,
        "vm",
      ],
    ],
  );
});

Deno.test("a flood of files is counted in full, by operation and folder, and hides no secret", async () => {
  const { gate, record } = await recording();
  const flood = Array.from({ length: 20_000 }, (_, at) => ({
    t: "File",
    operation: at % 2 ? "write" : "create",
    path: `/workspace/${at % 500}/f`,
    pid: 5,
  }));
  const secret = { t: "File", operation: "read", path: "/workspace/0/.env", pid: 5 };
  await record.serve(channelOf(hello(), started, ...flood, secret));
  const files = gate.entries.flatMap(({ event }) => event.file ? [event] : []);
  const sum = (operation: string) =>
    files.filter(({ file }) => file!.activity.operation === operation)
      .reduce((total, { common }) => total + Number(common.labels.folded ?? 1), 0);
  assertEquals([sum("create"), sum("write")], [10_000, 10_000]);
  assertEquals(files.length < 5000, true);
  assertEquals(
    files.filter(({ file }) => file!.activity.operation === "read").map(({ file, common }) => [
      file!.activity.path,
      common.labels,
    ]),
    [["/workspace/0/.env", {}]],
  );
});

Deno.test("ports that programs listen on are told, and are no events", async () => {
  const { gate, record, ports } = await recording();
  await record.serve(channelOf(hello(), { t: "Listen", port: 22 }, started, { t: "Listen", port: 5173 }));
  assertEquals([ports, gate.entries.length], [[22, 5173], 1]);
  const bad = await recording();
  await bad.record.serve(channelOf(hello(), started, { t: "Listen", port: 65_536 }));
  assertEquals(bad.ports, []);
});
