/** Detections as SQL over records of many sessions (docs/guides/fleet.md). */
export {
  columnOf,
  type Dialect,
  type HuntPeriod,
  type HuntSource,
  type HuntSql,
  huntSql,
  isOfResponse,
  outcomeColumnOf,
  type SqlParameter,
} from "./sql.ts";
