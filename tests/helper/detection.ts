/** Detections and events for tests, as short as they can be written. */
import type { DetectionIr, IrRule, MatchValue } from "../../lib/detection/mod.ts";
import type { EventCommon, HttpEvent } from "../../lib/event/mod.ts";
import { eventCommon, httpRequest } from "./event.ts";

/** A rule by its tests: field → values. */
export function rule(
  id: string,
  tests: Record<string, MatchValue | MatchValue[]>,
  more: Partial<IrRule> = {},
): IrRule {
  const [first] = Object.keys(tests).filter((path) => !path.startsWith("common."));
  return {
    id,
    source_id: id,
    title: `Rule ${id}`,
    event_family: (first ?? "http").split(".")[0] as IrRule["event_family"],
    condition: "selection",
    matchers: Object.entries(tests).map(([field_path, values]) => ({
      field_path,
      operator: "equals_any",
      values: [values].flat(),
      sigma_field: field_path,
    })),
    severity: "medium",
    confidence: "high",
    tags: [],
    ...more,
  };
}

/** A pack of such rules. */
export function ir(rules: IrRule[], more: Partial<DetectionIr> = {}): DetectionIr {
  return {
    schema: "sbx.detection.ir.v1",
    pack_id: "test.pack",
    pack_version: "1",
    pack_status: "active",
    owner: "user",
    rules,
    ...more,
  };
}

/** A complete http event. */
export function httpEvent(
  id: number,
  request: Record<string, unknown> = {},
  common: Partial<EventCommon> = {},
) {
  return {
    schema_version: 1 as const,
    common: eventCommon("http.request", {
      event_id: id.toString(16).padStart(12, "0"),
      timestamp_unix_ms: 1_760_000_000_000 + id,
      sequence: id,
      ...common,
    }),
    http: { request: httpRequest(request as Partial<HttpEvent["request"]>) },
  };
}
