/**
 * Checks OCSF 1.5 Detection Findings against the class's attributes as the schema's documentation lists them,
 * and events of a feed against the required attributes and constraints of the published schema.
 */
import { assert, assertEquals } from "@std/assert";
import ACTIVITY from "../../fixtures/ocsf/activity-1.5.0.json" with { type: "json" };
import CLASS from "../../fixtures/ocsf/detection-finding-1.5.0.json" with { type: "json" };

type Fields = Record<string, unknown>;

interface Shape {
  required?: string[];
  one_of?: string[];
  may?: string[];
  objects?: Record<string, string>;
}

const SHAPES = CLASS.objects as Record<string, Shape>;
const ENUMS = CLASS.enums as Record<string, Record<string, string>>;
const LABELS = CLASS.labels as Record<string, string>;
const TYPES = CLASS.observable_types as Record<string, string>;

/** Throws where an event is no Detection Finding of its profiles. */
export function requireDetectionFinding(event: Fields): void {
  const { required, recommended, profiles, other, objects } = CLASS.class;
  const applied = (event.metadata as { profiles: string[] }).profiles;
  const ofProfiles = applied.flatMap((profile) => (profiles as Record<string, string[]>)[profile] ?? []);
  requireShape("event", event, { required, may: [...recommended, ...ofProfiles, ...other], objects });
  for (const [id, label] of Object.entries(LABELS)) {
    if (event[id] !== undefined) assertEquals(event[label], ENUMS[id][String(event[id])], id);
  }
  assertEquals(event.type_uid, Number(event.class_uid) * 100 + Number(event.activity_id));
  if (applied.includes("security_control")) {
    for (const key of ["action_id", "disposition_id"]) assert(typeof event[key] === "number", key);
  }
  for (const { name, type_id, type, value } of event.observables as Record<string, string>[]) {
    assertEquals(type, TYPES[type_id], `the type of ${name}`);
    assertEquals(value, String(attributeAt(event, name)), `${name} is not in the event`);
  }
}

interface ActivityClass {
  caption: string;
  activities: Record<string, string>;
  required?: string[];
  may?: string[];
  at_least_one?: string[][];
}

/** Throws where an event lacks an attribute that its class requires, or has one that it does not know. */
export function requireActivity(event: Fields): void {
  const id = String(event.class_uid);
  const own = (ACTIVITY.classes as Record<string, ActivityClass>)[id];
  assert(own, `no class ${id}`);
  const { required = [], may = [], at_least_one = [] } = own;
  const applied = (event.metadata as { profiles: string[] }).profiles;
  const ofProfiles = applied.flatMap((profile) =>
    (ACTIVITY.profiles as Record<string, string[]>)[profile] ?? []
  );
  const objects = Object.fromEntries(
    (ACTIVITY.objects_of as Record<string, string[]>)[id]
      .map((key) => [key, (ACTIVITY.objects as Record<string, string>)[key]]),
  );
  requireShape("event", event, {
    required: [...ACTIVITY.required, ...required],
    may: [...ACTIVITY.may, ...ofProfiles, ...may],
    objects,
  });
  for (const group of at_least_one) assert(group.some((key) => event[key] !== undefined), `none of ${group}`);
  assertEquals(event.class_name, own.caption);
  assertEquals(event.type_uid, Number(id) * 100 + Number(event.activity_id));
  assertEquals(event.category_uid, Math.floor(Number(id) / 1000));
  if (event.activity_id !== 99) assertEquals(event.activity_name, own.activities[String(event.activity_id)]);
  for (const label of ["severity_id", "action_id", "disposition_id"]) {
    if (event[label] !== undefined) {
      assertEquals(event[LABELS[label]], ENUMS[label][String(event[label])], label);
    }
  }
}

/** The attribute that an observable names. */
function attributeAt(event: Fields, path: string): unknown {
  return path.split(/[.[\]]+/).reduce<unknown>((part, key) => (part as Fields | undefined)?.[key], event);
}

function requireShape(path: string, value: Fields, shape: Shape): void {
  const { required = [], one_of = [], may = [], objects = {} } = shape;
  for (const key of required) assert(value[key] !== undefined, `${path} lacks ${key}`);
  const known = [...required, ...one_of, ...may, ...Object.keys(objects)];
  for (const key of Object.keys(value)) assert(known.includes(key), `${path} has the unknown ${key}`);
  if (one_of.length > 0) {
    assert(one_of.some((key) => value[key] !== undefined), `${path} has none of ${one_of.join(", ")}`);
  }
  for (const [key, name] of Object.entries(objects)) {
    for (const part of [value[key] ?? []].flat()) {
      requireShape(`${path}.${key}`, part as Fields, SHAPES[name]);
    }
  }
}
