import { assert, assertEquals } from "@std/assert";
import { grafanaDashboard, QUESTIONS } from "../../../lib/fleet/question/mod.ts";

interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { rawSql: string; datasource: { uid: string } }[];
}

Deno.test("the dashboard has a panel for every question, each in its own place, with variables that are there", () => {
  const dashboard = grafanaDashboard();
  const panels = dashboard.panels as Panel[];
  const { list } = dashboard.templating as { list: { name: string }[] };
  assertEquals(new Set(panels.map(({ id }) => id)).size, panels.length);
  assertEquals(
    panels.filter(({ type }) => type === "table").map(({ title }) => title.split(":")[0]).sort(),
    QUESTIONS.map(({ name }) => name).sort(),
  );
  for (const [at, { gridPos: one }] of panels.entries()) {
    assert(one.x + one.w <= 24);
    for (const { gridPos: other } of panels.slice(at + 1)) {
      const isApart = one.x + one.w <= other.x || other.x + other.w <= one.x || one.y + one.h <= other.y ||
        other.y + other.h <= one.y;
      assert(isApart, JSON.stringify([one, other]));
    }
  }
  for (const { targets = [] } of panels) {
    for (const { rawSql, datasource } of targets) {
      assertEquals(datasource.uid, "${source}");
      for (const [, name, format] of rawSql.matchAll(/\$\{(\w+)(?::(\w+))?\}/g)) {
        assert(name === "__from" || list.some((variable) => variable.name === name), name);
        // Everything else could end a literal.
        if (name !== "__from") assertEquals(format, "percentencode");
      }
    }
  }
});
