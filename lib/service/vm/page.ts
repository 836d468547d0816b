/** Pages of the list of VMs. */
import { SbxError } from "../../base/error/mod.ts";
import type { Vm } from "./vm.ts";

/** Which VMs of a list. */
export interface PageOf {
  /** default: all */
  limit?: number;
  /** `next_cursor` of the page before */
  cursor?: string;
}

/** A VM's place in the order of the list: when it was made, and its id. */
const CURSOR = /^([\dTZ:.-]{0,32})_([0-9a-f-]{36})$/;

/**
 * One page of VMs in the order of `Registry.all`. A cursor is a place, so that the list goes on behind a VM
 * that was deleted meanwhile.
 *
 * @throws {SbxError} `request.invalid`
 */
export function pageOfVms(
  all: Vm[],
  { limit = Infinity, cursor }: PageOf,
): { vms: Vm[]; next_cursor?: string } {
  const rest = cursor === undefined ? all : behind(all, cursor);
  const vms = rest.slice(0, limit);
  const last = vms.at(-1)?.record;
  return { vms, next_cursor: last && rest.length > limit ? `${last.created_at}_${last.id}` : undefined };
}

function behind(all: Vm[], cursor: string): Vm[] {
  const [, created_at, id] = CURSOR.exec(cursor) ?? [];
  if (created_at === undefined || id === undefined) {
    throw new SbxError("request.invalid", "cursor is not the next_cursor of a list of VMs", {
      hint: "read the list from its first page",
    });
  }
  return all.filter(({ record }) =>
    (record.created_at.localeCompare(created_at) || record.id.localeCompare(id)) > 0
  );
}
