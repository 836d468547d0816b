import { SbxError } from "../../../lib/base/error/mod.ts";

/** Time of a build: SOURCE_DATE_EPOCH if it is set, else now. @throws {SbxError} `package.time_invalid` */
export function buildTime(): Date {
  const text = Deno.env.get("SOURCE_DATE_EPOCH");
  if (!text) return new Date();
  if (/^\d{1,11}$/.test(text)) return new Date(Number(text) * 1000);
  throw new SbxError(
    "package.time_invalid",
    `SOURCE_DATE_EPOCH is "${text}", which is no number of seconds`,
    {
      hint: "set it to seconds since 1970, or unset it",
    },
  );
}
