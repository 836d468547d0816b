import { assertEquals } from "@std/assert";
import { DbusMenu } from "../../../../lib/client/tray/dbus_menu.ts";
import {
  menuOf,
  OFFLINE,
  stateAfter,
  type TrayAction,
  type TrayState,
} from "../../../../lib/client/tray/menu.ts";

const vm = (id: string, status = "Running") =>
  ({ id, name: `name-${id}`, status, available_actions: [] }) as unknown as TrayState["vms"][number];
const ask = (ask_id: string, status = "pending") =>
  ({ ask_id, digest: "d", session_id: "1", subject: `subject-${ask_id}`, status }) as TrayState["asks"][
    number
  ];
const labels = (state: TrayState) => menuOf(state).flatMap(({ label }) => label ?? []);

Deno.test("tray: messages replace, add and remove VMs and asks; others change nothing", () => {
  let state: TrayState = { isOnline: true, vms: [vm("1"), vm("2")], asks: [] };
  for (
    const [type, payload] of [
      ["vm-state-changed", vm("1", "Paused")],
      ["vm-state-changed", vm("3")],
      ["vm-deleted", { id: "2" }],
      ["ask", ask("a")],
      ["ask", ask("b")],
      ["ask", ask("a", "allowed")],
      ["finding", { id: "1" }],
    ] as const
  ) state = stateAfter(state, { type, payload });
  assertEquals(state, { isOnline: true, vms: [vm("1", "Paused"), vm("3")], asks: [ask("b")] });
});

Deno.test("tray: the menu shows ten VMs and five asks, and the number of the others", () => {
  const ids = (count: number) => Array.from({ length: count }, (_, at) => String(at));
  const state = { isOnline: true, vms: ids(12).map((id) => vm(id)), asks: ids(6).map((id) => ask(id)) };
  const shown = labels(state);
  assertEquals(shown.filter((label) => label.endsWith(": running")).length, 10);
  assertEquals(shown.filter((label) => label.includes(" asks: ")).length, 5);
  assertEquals(shown.filter((label) => label.endsWith("more in the desktop")), [
    "1 more in the desktop",
    "2 more in the desktop",
  ]);
  assertEquals(labels({ isOnline: true, vms: [vm("1", "Stopped")], asks: [] }).length, 3);
  assertEquals(labels(OFFLINE)[0], "sbx is not running");
});

Deno.test("tray: a late click on an entry of an earlier menu runs no other entry's action", async () => {
  const actions: TrayAction[] = [];
  const menu = new DbusMenu((action) => actions.push(action));
  // The methods as the bus calls them: arguments in their order, and the message last.
  const { GetLayout, Event } = (menu.definition as unknown as {
    impl: Record<string, (...args: unknown[]) => unknown>;
  }).impl;
  const idsShown = async () => {
    const [, layout] = await GetLayout(0, -1, [], {}) as [number, [number, object, { value: [number] }[]]];
    return layout[2].map(({ value: [id] }) => id);
  };
  const click = (id: number) => Event(id, "clicked", undefined, 0, {});
  const entry = (ask: string) => ({
    key: `allow-${ask}`,
    label: "Allow once",
    action: { do: "answer", ask, digest: "d", decision: "allow" } as const,
  });
  menu.set([entry("first")]);
  const [first] = await idsShown();
  menu.set([entry("second")]);
  const [second] = await idsShown();
  click(first);
  assertEquals(actions, []);
  click(second);
  assertEquals(actions, [entry("second").action]);
});
