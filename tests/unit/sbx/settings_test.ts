import { assertEquals, assertRejects } from "@std/assert";
import { formatExplanation, formatValue, parseSetting } from "../../../cmd/sbx/admin/settings.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { EMPTY_LAYER, type LeafNode, loadDefinitions, resolve } from "../../../lib/config/settings/mod.ts";

const { byId } = resolve(await loadDefinitions({ get: () => undefined }), EMPTY_LAYER, EMPTY_LAYER);
const leaf = (id: string): LeafNode => byId.get(id)!;
const parse = (id: string, text: string) => parseSetting(leaf(id), text);

Deno.test("text is parsed as the setting's type", async () => {
  assertEquals(await parse("appearance.theme", "dark"), "dark");
  assertEquals(await parse("appearance.font_size", "20"), 20);
  assertEquals(await parse("app.auto_update", "off"), false);
  assertEquals(await parse("app.auto_update", "true"), true);
  assertEquals(await parse("vm.environment.proxy.no_proxy", "a, b"), ["a", "b"]);
  assertEquals(await parse("vm.environment.proxy.no_proxy", ""), []);
  assertEquals(await parse("network.dns_resolvers", "[2001:db8::1]:53, 192.0.2.1"), [
    "[2001:db8::1]:53",
    "192.0.2.1",
  ]);
  assertEquals(await parse("vm.environment.dev.ports", "1,2"), [1, 2]);
  assertEquals(await parse("telemetry.latency_buckets", "[0.5, 1]"), [0.5, 1]);
  assertEquals(await parse("vm.environment.shell.bashrc", '{"path":"/root/x","content":"c"}'), {
    path: "/root/x",
    content: "c",
  });
});

Deno.test("@FILE sets the content of a file setting and keeps its path", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, "alias l=ls\n");
    assertEquals(await parse("vm.environment.shell.bashrc", `@${path}`), {
      path: "/root/.bashrc",
      content: "alias l=ls\n",
    });
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("an invalid value is rejected before any request", async () => {
  for (
    const [id, text] of [
      ["appearance.font_size", "big"],
      ["appearance.font_size", ""],
      ["app.auto_update", "yes"],
      ["vm.environment.dev.ports", "1,x"],
      ["vm.environment.shell.bashrc", "alias"],
      ["vm.environment.shell.bashrc", "@/nowhere/at/all"],
    ]
  ) assertEquals((await assertRejects(() => parse(id, text), SbxError)).code, "usage.invalid");
});

Deno.test("a table shows no secrets and no contents of files", () => {
  const format = (id: string, effective_value: LeafNode["effective_value"]) =>
    formatValue({ ...leaf(id), effective_value });
  const secret = { ...leaf("telemetry.user"), setting_type: "password" as const };
  assertEquals(formatValue({ ...secret, effective_value: "hunter2" }), "••••••");
  assertEquals(formatValue({ ...secret, effective_value: "" }), "");
  assertEquals(
    format("vm.environment.shell.bashrc", { path: "/root/.bashrc", content: "abc" }),
    "/root/.bashrc (3 characters)",
  );
  assertEquals(format("vm.environment.shell.lang", "x".repeat(100)), "x".repeat(47) + "…");
  assertEquals(format("vm.environment.dev.ports", [1, 2]), "1, 2");
});

Deno.test("an explanation as text", () => {
  const text = formatExplanation({
    id: "telemetry.endpoint",
    name: "Endpoint",
    description: "URL of an OpenTelemetry collector",
    form: "a URL",
    effective_value: "https://a.example",
    source: "corp",
    corp_locked: true,
    lock: "/etc/sbx/corp.toml:4",
    enabled: false,
    hidden: false,
    layers: [
      { layer: "corp", value: "https://a.example", file: "/etc/sbx/corp.toml", line: 4, wins: true },
      { layer: "user", value: "https://b.example", file: "/h/settings.toml", line: 9, wins: false },
      { layer: "default", value: "", enabled: true, file: "defaults.toml", line: 222, wins: false },
    ],
    enabled_by: [{
      id: "telemetry.enabled",
      value: false,
      enabled: true,
      source: "default",
      file: "defaults.toml",
      line: 215,
    }],
  });
  assertEquals(
    text,
    `setting      telemetry.endpoint
description  URL of an OpenTelemetry collector
form         a URL
value        "https://a.example"
from         corp
locked       by corp, /etc/sbx/corp.toml:4
enabled      no

LAYER    VALUE                      WHERE
corp     "https://a.example"  wins  /etc/sbx/corp.toml:4
user     "https://b.example"        /h/settings.toml:9
default  ""                         defaults.toml:222

ENABLED BY         VALUE    WHERE
telemetry.enabled  false    defaults.toml:215`,
  );
});
